// The randomness server's part of the OPRF, for tests.

import { ristretto255_oprf } from "@noble/curves/ed25519.js";

/** The output for an input, for whoever holds the key. */
export function evaluate(privateKey: Uint8Array, input: Uint8Array): Uint8Array {
  const { voprf } = ristretto255_oprf;
  return (voprf as unknown as { evaluate(key: Uint8Array, input: Uint8Array): Uint8Array }).evaluate(privateKey, input);
}
