// Reports: from an artifact to bytes of constant size, and their seals. docs/crowd-format.md is the reference.

import { Chacha20Poly1305 } from "@hpke/chacha20poly1305";
import { CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import { chacha20poly1305 } from "@noble/ciphers/chacha.js";
import { sha512 } from "@noble/hashes/sha2.js";
import { shake256 } from "@noble/hashes/sha3.js";
import { LONGEST } from "./artifacts.js";
import { type Bytes, bigEndian, hash, join, mac, random, split, toNumber, utf8 } from "./bytes.js";

const VERSION = 1;
const ARTIFACT = 1;
const DUMMY = 0;
const PADDED = 2 + LONGEST;
const SECONDARY_BYTES = 12 + 32 + 32 + PADDED + 16 + 16;
export const REPORT_BYTES = 1 + 1 + 16 + 32 + 16 + 32 + (PADDED + 16) + SECONDARY_BYTES + 96;
const PRIME = 2n ** 255n - 19n;
const NO_NONCE = new Uint8Array(12); // each key encrypts one text only

/** What the randomness server is asked, blinded, for an artifact. */
export function primaryInput(job: Uint8Array, text: string): Bytes {
  return join(utf8("searchveil crowd primary v1"), job, utf8(text));
}

/** What it is asked for a spelling of an artifact. */
export function secondaryInput(job: Uint8Array, text: string, typed: string): Bytes {
  const encoded = utf8(text);
  return join(utf8("searchveil crowd secondary v1"), job, bigEndian(encoded.length, 2), encoded, utf8(typed));
}

/** The secret of an artifact, from the randomness server's output of 64 bytes. */
export function secretOf(output: Uint8Array): Bytes {
  const wide = sha512(join(utf8("searchveil crowd secret v1"), output));
  return bigEndian(toNumber(wide) % PRIME, 32);
}

function derive(secret: Uint8Array, purpose: string): Bytes {
  return mac(secret, utf8(`searchveil crowd ${purpose} v1`));
}

export function tagOf(secret: Uint8Array): Bytes {
  return derive(secret, "tag");
}

/** The same on all machines of a user, and different for every artifact and job. */
export function shareNumber(user: Uint8Array, job: Uint8Array, text: string): bigint {
  return asNumber(mac(user, utf8("searchveil crowd share v1"), job, utf8(text)));
}

export function freshNumber(): bigint {
  return asNumber(random(16));
}

function asNumber(found: Uint8Array): bigint {
  return toNumber(found.slice(0, 16)) || 1n;
}

/** 64 bits, the same on all machines of a user. */
export function coin(user: Uint8Array, job: Uint8Array, text: string): bigint {
  return toNumber(mac(user, utf8("searchveil crowd coin v1"), job, utf8(text)).slice(0, 8));
}

/** Whether a coin shows heads: below p·2^64, for the exact value of the floating-point number p. */
export function heads(found: bigint, p: number): boolean {
  // Two halves of 32 bits each: products of a float with a power of two are exact.
  const high = Math.floor(p * 2 ** 32);
  const low = Math.floor((p * 2 ** 32 - high) * 2 ** 32);
  return found < (BigInt(high) << 32n) + BigInt(low);
}

/** The value at x of the polynomial that follows from a secret; k such values show it. */
export function share(secret: Uint8Array, k: number, x: bigint): bigint {
  const wide = shake256(join(utf8("searchveil shamir v1"), bigEndian(k, 4), secret), { dkLen: 48 * (k - 1) });
  const coefficients = [toNumber(secret), ...split(wide, 48).map((part) => toNumber(part) % PRIME)];
  return coefficients.reduceRight((total, coefficient) => (total * x + coefficient) % PRIME, 0n);
}

export interface Spelling {
  readonly typed: string;
  readonly output: Uint8Array;
  readonly k: number;
}

export interface Parts {
  readonly job: Uint8Array;
  readonly text: string;
  readonly output: Uint8Array; // the randomness server's for the artifact
  readonly k: number;
  readonly x: bigint;
  readonly token: Uint8Array;
  readonly spelling: Spelling | null;
}

/** A report in the clear, as the server will have it. */
export function makeReport({ job, text, output, k, x, token, spelling }: Parts): Bytes {
  const secret = secretOf(output);
  const number = bigEndian(x, 16);
  const inner = spelling === null ? new Uint8Array(SECONDARY_BYTES - 28) : spellingField(spelling, x);
  const nonce = mac(secret, utf8("nonce"), number, inner).slice(0, 12);
  const secondary = join(nonce, chacha20poly1305(derive(secret, "secondary"), nonce).encrypt(inner));
  const y = bigEndian(share(secret, k, x), 32);
  const head = Uint8Array.of(VERSION, ARTIFACT);
  return join(head, job, tagOf(secret), number, y, encrypt(secret, text), secondary, token);
}

/** Inside of the primary's secret: a share of the spelling's own, and the spelling under it. */
function spellingField({ typed, output, k }: Spelling, x: bigint): Bytes {
  const secret = secretOf(output);
  return join(tagOf(secret), bigEndian(share(secret, k, x), 32), encrypt(secret, typed));
}

function encrypt(secret: Uint8Array, text: string): Uint8Array {
  const encoded = utf8(text);
  if (encoded.length > LONGEST) throw new Error(`an artifact has at most ${LONGEST} bytes`);
  const padded = join(bigEndian(encoded.length, 2), encoded, new Uint8Array(LONGEST - encoded.length));
  return chacha20poly1305(derive(secret, "text"), NO_NONCE).encrypt(padded);
}

/** A report that says nothing: how many true ones a user has stays hidden on the way. */
export function dummy(job: Uint8Array): Bytes {
  return join(Uint8Array.of(VERSION, DUMMY), job, random(REPORT_BYTES - 2 - job.length));
}

/** What only who has read a report can answer. */
export function receipt(report: Uint8Array): Bytes {
  return hash(utf8("searchveil crowd receipt v1"), report).slice(0, 16);
}

// --- Seals ---

const KEM = new DhkemX25519HkdfSha256();
const SUITE = new CipherSuite({ kem: KEM, kdf: new HkdfSha256(), aead: new Chacha20Poly1305() });

/** Draws the ephemeral private key of a seal; only tests with vectors give a fixed one. */
export type Ephemeral = () => Promise<CryptoKeyPair>;
const fresh: Ephemeral = () => KEM.generateKeyPair();

async function hpke(publicKey: Uint8Array, info: string, plaintext: Uint8Array, draw: Ephemeral): Promise<Bytes> {
  const sender = await SUITE.createSenderContext({
    recipientPublicKey: await KEM.deserializePublicKey(publicKey.slice().buffer),
    info: utf8(info).buffer,
    ekm: await draw(),
  });
  return join(new Uint8Array(sender.enc), new Uint8Array(await sender.seal(plaintext.slice().buffer)));
}

export interface Hop {
  readonly number: number;
  readonly key: Uint8Array;
}

/** Sealed to the server and wrapped once per relay; `relays` in the order of the way. */
export async function seal(
  report: Uint8Array,
  server: Uint8Array,
  relays: readonly Hop[],
  draw: Ephemeral = fresh,
): Promise<Bytes> {
  let sealed = await hpke(server, "searchveil crowd report v1", report, draw);
  let following = 0;
  for (const { number, key } of relays.toReversed()) {
    sealed = await hpke(key, "searchveil crowd relay v1", join(Uint8Array.of(following), sealed), draw);
    following = number;
  }
  return sealed;
}
