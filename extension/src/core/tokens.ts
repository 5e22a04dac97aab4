// Tokens that a member spends unlinkably: blind evaluations of random numbers; and what a member shows to get them.

import { scryptAsync } from "@noble/hashes/scrypt.js";
import { hash, hex, join, random, split, unhex, utf8 } from "./bytes.js";
import { blind, type Blinded, ELEMENT_BYTES, finalize } from "./voprf.js";

const SCRYPT_N = 2 ** 17; // 128 MiB and about a second for each guess of a pass-phrase

/** What a client keeps until the answer is there; written down first, so that a retry asks for the same tokens. */
export interface TokenRequest {
  readonly nonces: readonly Uint8Array[];
  readonly blinded: readonly Blinded[];
}

export function freshRequest(number: number): TokenRequest {
  const nonces = Array.from({ length: number }, () => random(32));
  return { nonces, blinded: nonces.map((nonce) => blind(nonce, random(64))) };
}

export function body(request: TokenRequest): Uint8Array<ArrayBuffer> {
  return join(...request.blinded.map((one) => one.element));
}

export function tokens(request: TokenRequest, publicKey: Uint8Array, answer: Uint8Array): Uint8Array[] {
  const outputs = finalize(publicKey, request.nonces, request.blinded, answer);
  return outputs.map((output, i) => join(request.nonces[i] as Uint8Array, output));
}

export function toText(request: TokenRequest): string {
  return request.nonces.map((nonce, i) => hex(join(nonce, (request.blinded[i] as Blinded).blind, (request.blinded[i] as Blinded).element))).join(" ");
}

export function fromText(text: string): TokenRequest {
  const rows = text.split(" ").filter((row) => row !== "").map((row) => split(unhex(row), ELEMENT_BYTES));
  return {
    nonces: rows.map((row) => row[0] as Uint8Array),
    blinded: rows.map((row) => ({ blind: row[1] as Uint8Array, element: row[2] as Uint8Array })),
  };
}

/** What a member shows to one program, which cannot use it at another. */
export function credential(invitation: string, program: "server" | "randomness"): string {
  return hex(hash(utf8(`searchveil crowd member v1 ${program} ${invitation}`)));
}

/** The same on all machines of a member: it follows from the invitation and the pass-phrase, which may be empty. */
export async function userSecret(signer: Uint8Array, invitation: string, passphrase: string): Promise<Uint8Array> {
  const salt = join(utf8("searchveil crowd user v2"), signer, utf8(invitation));
  return scryptAsync(utf8(passphrase), salt, { N: SCRYPT_N, r: 8, p: 1, dkLen: 32, maxmem: 2 ** 28 });
}
