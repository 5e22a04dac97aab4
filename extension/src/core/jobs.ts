// Jobs: signed documents that say what leaves a person's machine, and what may become public. src/searchveil/crowd/jobs.py.

import { ed25519 } from "@noble/curves/ed25519.js";
import english from "../../static/_locales/en/messages.json";
import { GAP_MINUTES, KINDS, LONGEST } from "./artifacts.js";
import { hash, hex, join, unhex, utf8 } from "./bytes.js";
import { checkPolicy, isNoisy, isPrivate, MOST_SHARES, NAMES, perArtifact, type Policy, USUAL_REPORTS } from "./policy.js";

const PURPOSE = utf8("searchveil crowd job v1\n");
const EPOCHS = utf8("searchveil crowd epochs v1\n");

/** What is asked of clients. Times are seconds since 1970; keys are hexadecimal. */
export interface Job {
  readonly id: string;
  readonly text: string; // what is signed
  readonly community: string;
  readonly artifact: string;
  readonly policy: Policy;
  readonly epoch: number;
  readonly randomness_key: string;
  readonly randomness_token_key: string;
  readonly token_key: string;
  readonly opens: number;
  readonly expires: number;
  readonly secondary_k: number | null;
  readonly domains: boolean;
  readonly recent: boolean;
}

/** A text in a language: a key of _locales, and what is filled in. */
export type Translate = (key: string, ...filled: readonly string[]) => string;

export const inEnglish: Translate = (key, ...filled) =>
  (english as Record<string, { message: string }>)[key]?.message.replace(/\$(\d)/g, (_, n) => filled[Number(n) - 1] ?? "") ?? "";

export interface Words {
  readonly leaves: string;
  readonly opens: string;
  readonly public: string;
  readonly promise: string;
}

/** In plain words: what leaves the machine, what may become public, what is promised. */
export function wordsOf(job: Job, t: Translate): Words {
  const { policy } = job;
  const whose = perArtifact(policy) ? "searches" : "people";
  let leaves = t("words_encrypted", t(`words_kind_${job.artifact.replace("-", "_")}`, String(GAP_MINUTES)));
  if (policy.per_user < USUAL_REPORTS) leaves += t("words_at_most", String(policy.per_user));
  if (policy.name === "ST_u") leaves += t("words_coin", general(100 * policy.p));
  if (job.domains) leaves += t("words_domains");
  let published = isNoisy(policy) ? t(`words_noisy_${whose}`, String(policy.threshold)) : t(`words_public_${whose}`);
  if (job.secondary_k !== null) published += ` ${t(`words_spelling_${whose}`, String(job.secondary_k))}`;
  const promise = isPrivate(policy)
    ? t("words_promise", shortest(policy.epsilon ?? 0), shortest(policy.delta ?? 0))
    : t(`words_no_promise_${whose}`);
  return { leaves: `${leaves}.`, opens: t(`words_opens_${whose}`, String(policy.k)), public: published, promise };
}

/** As Python's `g` format writes a number below a million. */
export function general(number: number): string {
  if (number === 0 || number >= 1e-4) return String(Number(number.toPrecision(6)));
  const [digits, power] = number.toExponential(5).split("e") as [string, string];
  return `${String(Number(digits))}e-${power.slice(1).padStart(2, "0")}`;
}

/** The shortest decimal that reads back as the same number. */
export function shortest(number: number): string {
  return number !== 0 && (number < 1e-4 || number >= 1e16) ? number.toExponential() : String(number);
}

/** What is kept of an artifact as it was typed: nothing, unless the job asks for it and a report has room. */
export function spelling(job: Job, typed: string): string {
  return job.secondary_k !== null && utf8(typed).length <= LONGEST ? typed : "";
}

export function isOpen(job: Job, now: number): boolean {
  return job.opens <= now && now < job.expires;
}

/** The job in a document, if the community signed it and its promise holds. */
export function readJob(document: unknown, signer: Uint8Array): Job {
  const text = verified(document, "job", PURPOSE, signer, "job_forged");
  const job = jobOf(text);
  if (job === null) throw new JobError("job_unreadable");
  try {
    checkPolicy(job.policy);
  } catch {
    throw new JobError("job_promise");
  }
  if (job.secondary_k !== null && (isPrivate(job.policy) || job.secondary_k < 2 || job.secondary_k > MOST_SHARES)) throw new JobError("job_promise");
  if (job.expires <= job.opens) throw new JobError("job_unreadable");
  const said = (JSON.parse(text) as { words: unknown }).words;
  const meant = wordsOf(job, inEnglish);
  if (JSON.stringify(said, Object.keys(meant)) !== JSON.stringify(meant)) throw new JobError("job_words");
  return job;
}

/** Why a job is refused: a key of _locales. */
export class JobError extends Error {}

function verified(document: unknown, field: string, purpose: Uint8Array, signer: Uint8Array, problem: string): string {
  const record = (typeof document === "string" ? parsed(document) : document) as Record<string, unknown> | null;
  const text = record?.[field];
  const signature = record?.["signature"];
  if (typeof text !== "string" || typeof signature !== "string") throw new JobError(problem);
  try {
    if (ed25519.verify(unhex(signature), join(purpose, utf8(text)), signer, { zip215: false })) return text;
  } catch {
    // A malformed signature counts as a wrong one.
  }
  throw new JobError(problem);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const SHAPE: Readonly<Record<string, (value: unknown) => boolean>> = {
  community: isText,
  artifact: (value) => isText(value) && Object.hasOwn(KINDS, value as string),
  policy: (value) => isPolicy(value),
  epoch: Number.isInteger,
  randomness_key: isKey,
  randomness_token_key: isKey,
  token_key: isKey,
  opens: Number.isInteger,
  expires: Number.isInteger,
  secondary_k: (value) => value === null || Number.isInteger(value),
  domains: isFlag,
  recent: isFlag,
};

const POLICY_SHAPE: Readonly<Record<string, (value: unknown) => boolean>> = {
  name: (value) => NAMES.includes(value as Policy["name"]),
  k: Number.isInteger,
  per_user: Number.isInteger,
  p: isNumber,
  epsilon: (value) => value === null || isNumber(value),
  delta: (value) => value === null || isNumber(value),
  threshold: Number.isInteger,
  colluding: Number.isInteger,
};

function isText(value: unknown): boolean {
  return typeof value === "string";
}

function isNumber(value: unknown): boolean {
  return Number.isFinite(value);
}

function isFlag(value: unknown): boolean {
  return typeof value === "boolean";
}

function isKey(value: unknown): boolean {
  return typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
}

function isPolicy(value: unknown): boolean {
  return hasShape(value, POLICY_SHAPE, []);
}

/** Whether a record has these fields, and no others but those named. */
function hasShape(value: unknown, shape: typeof SHAPE, besides: readonly string[]): boolean {
  if (typeof value !== "object" || value === null) return false;
  const record = value as Record<string, unknown>;
  const fits = Object.entries(shape).every(([name, holds]) => Object.hasOwn(record, name) && holds(record[name]));
  return fits && Object.keys(record).every((name) => Object.hasOwn(shape, name) || besides.includes(name));
}

/** The job in a text that was signed; null if it is of another version. */
export function jobOf(text: string): Job | null {
  const record = parsed(text) as Record<string, unknown> | null;
  if (record?.["version"] !== 1 || !hasShape(record, SHAPE, ["version", "words"])) return null;
  const { version: _, words: __, ...fields } = record;
  return { ...(fields as unknown as Job), id: hex(hash(PURPOSE, utf8(text)).slice(0, 16)), text };
}

export interface Epoch {
  readonly oprf: string;
  readonly token: string;
}

/** The epochs in a signed list, by number. */
export function readEpochs(record: unknown, signer: Uint8Array): Readonly<Record<string, Epoch>> {
  const text = verified(record, "epochs", EPOCHS, signer, "epochs_forged");
  return (JSON.parse(text) as { epochs: Record<string, Epoch> }).epochs;
}
