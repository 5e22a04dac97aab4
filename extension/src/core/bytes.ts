// Bytes: joining, hexadecimal digits, and the two hashes of the wire format.

import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";

export type Bytes = Uint8Array<ArrayBuffer>;

const ENCODER = new TextEncoder();

export function utf8(text: string): Bytes {
  return ENCODER.encode(text);
}

export function join(...parts: readonly Uint8Array[]): Bytes {
  const joined = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** Pieces of one size; an error unless they come out even. */
export function split(bytes: Uint8Array, size: number): Uint8Array[] {
  if (bytes.length % size !== 0) throw new Error(`${bytes.length} bytes are no pieces of ${size}`);
  return Array.from({ length: bytes.length / size }, (_, i) => bytes.slice(i * size, (i + 1) * size));
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function unhex(text: string): Bytes {
  if (!/^([0-9a-fA-F]{2})*$/.test(text)) throw new Error("these are no hexadecimal digits");
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

export function equal(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, i) => byte === other[i]);
}

export function bigEndian(value: bigint | number, size: number): Bytes {
  return unhex(BigInt(value).toString(16).padStart(2 * size, "0"));
}

export function toNumber(bytes: Uint8Array): bigint {
  return bytes.length === 0 ? 0n : BigInt(`0x${hex(bytes)}`);
}

export function random(size: number): Bytes {
  return crypto.getRandomValues(new Uint8Array(size));
}

export function mac(key: Uint8Array, ...parts: readonly Uint8Array[]): Bytes {
  return new Uint8Array(hmac(sha256, key, join(...parts)));
}

export function hash(...parts: readonly Uint8Array[]): Bytes {
  return new Uint8Array(sha256(join(...parts)));
}

/** A whole number from 0 to `below` − 1, each as likely as the others. */
export function uniform(below: number): number {
  const limit = Math.floor(2 ** 32 / below) * below;
  for (;;) {
    const drawn = Number(toNumber(random(4)));
    if (drawn < limit) return drawn % below;
  }
}

export function shuffled<T>(list: readonly T[]): T[] {
  const mixed = [...list];
  for (let i = mixed.length - 1; i > 0; i--) {
    const j = uniform(i + 1);
    [mixed[i], mixed[j]] = [mixed[j] as T, mixed[i] as T];
  }
  return mixed;
}
