// A verifiable oblivious pseudorandom function: RFC 9497, ristretto255-SHA512, verifiable mode, the client's part.

import { ristretto255, ristretto255_hasher, ristretto255_oprf } from "@noble/curves/ed25519.js";
import { bytesToNumberLE, numberToBytesLE } from "@noble/curves/utils.js";
import { split } from "./bytes.js";

export const ELEMENT_BYTES = 32;
export const PROOF_BYTES = 64;
export const OUTPUT_BYTES = 64;

const { Point } = ristretto255;
const { voprf } = ristretto255_oprf;
const TO_GROUP = "HashToGroup-OPRFV1-\x01-ristretto255-SHA512";

/** What the client keeps (`blind`) and what it sends (`element`). */
export interface Blinded {
  readonly blind: Uint8Array;
  readonly element: Uint8Array;
}

/** Hide an input behind a factor that follows from 64 uniform secret bytes. */
export function blind(text: Uint8Array, wide: Uint8Array): Blinded {
  const factor = Point.Fn.create(bytesToNumberLE(wide));
  const point = ristretto255_hasher.hashToCurve(text, { DST: TO_GROUP }).multiply(factor);
  return { blind: numberToBytesLE(factor, 32), element: point.toBytes() };
}

/** The outputs, 64 bytes each; an error unless the proof shows that the key is the published one. */
export function finalize(
  publicKey: Uint8Array,
  texts: readonly Uint8Array[],
  blinded: readonly Blinded[],
  answer: Uint8Array,
): Uint8Array[] {
  const size = texts.length * ELEMENT_BYTES;
  if (texts.length !== blinded.length || answer.length !== size + PROOF_BYTES) {
    throw new Error("the answer does not fit the question: another number of elements, or no proof");
  }
  const evaluated = split(answer.slice(0, size), ELEMENT_BYTES);
  return voprf.finalizeBatch(
    texts.map((input, i) => ({
      input,
      blind: (blinded[i] as Blinded).blind,
      blinded: (blinded[i] as Blinded).element,
      evaluated: evaluated[i] as Uint8Array,
    })),
    publicKey,
    answer.slice(size),
  );
}
