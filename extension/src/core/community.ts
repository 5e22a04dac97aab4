// The public file of a community, which its operator hands to every member: src/searchveil/crowd/config.py.

import { unhex } from "./bytes.js";

export interface RelayAddress {
  readonly number: number;
  readonly url: string;
  readonly key: string;
}

export interface Community {
  readonly name: string;
  readonly server: string;
  readonly server_key: string;
  readonly signer: string;
  readonly randomness: string;
  readonly randomness_signer: string;
  readonly relays: readonly RelayAddress[];
  readonly hops: number;
}

/** A member: the community, the invitation, and the secret that follows from it and the pass-phrase. */
export interface Member {
  readonly community: Community;
  readonly invitation: string;
  readonly secret: string;
}

/** The community in a file; an error whose message is a key of _locales if it is none. */
export function readCommunity(text: string): Community {
  let record: Community;
  try {
    record = JSON.parse(text) as Community;
  } catch {
    throw new Error("community_unreadable");
  }
  const keys = [record?.server_key, record?.signer, record?.randomness_signer, ...relaysOf(record).map((one) => one.key)];
  const sound =
    typeof record?.name === "string" &&
    keys.every((key) => typeof key === "string" && unhexed(key) === 32) &&
    relaysOf(record).every((one) => Number.isInteger(one.number) && one.number > 0 && one.number < 256) &&
    Number.isInteger(record.hops) &&
    record.hops >= 1 &&
    record.hops <= relaysOf(record).length;
  if (!sound) throw new Error("community_unreadable");
  const urls = [record.server, record.randomness, ...record.relays.map((one) => one.url)];
  if (!urls.every(isSafe)) throw new Error("community_unsafe");
  return { ...record, server: bare(record.server), randomness: bare(record.randomness) };
}

function relaysOf(record: Community | null): readonly RelayAddress[] {
  return Array.isArray(record?.relays) ? record.relays : [];
}

function unhexed(key: string): number {
  try {
    return unhex(key).length;
  } catch {
    return 0;
  }
}

function bare(url: string): string {
  return url.replace(/\/+$/, "");
}

/** HTTPS; or HTTP on this very machine, for trying things out. */
function isSafe(url: unknown): boolean {
  if (typeof url !== "string" || !URL.canParse(url)) return false;
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || (protocol === "http:" && ["127.0.0.1", "localhost"].includes(hostname));
}
