// The log and the state of its jobs, in IndexedDB: src/searchveil/crowd/own_log.py. Nothing in it leaves the machine but
// by a job that its owner agreed to.

import { type DBSchema, type IDBPDatabase, type IDBPTransaction, openDB } from "idb";
import { type Artifact, KINDS, type Search } from "./artifacts.js";
import { type Job, jobOf, spelling } from "./jobs.js";
import { perArtifact } from "./policy.js";
import { freshRequest, fromText, toText } from "./tokens.js";

export type Answer = "always" | "ask" | "never";

/** A row of the log; `site` is the rule that it came by. */
export interface Entry extends Search {
  readonly id: number;
  readonly time: number;
  readonly site: string;
}

/** A job of this community, as it was signed. */
export interface KnownJob {
  readonly id: string;
  readonly text: string;
}

/** A round of a job: tokens are asked for, then reports wait and are sent, then it is done. */
export interface Run {
  readonly job: string;
  state: "asking" | "sending" | "done";
  reportTokens: string; // requests, written down before they are sent
  randomnessTokens: string;
  blinding: string; // what blinds follow from, so that a stopped run asks the same questions
  sendAfter: number; // milliseconds since 1970, as all times of the machine below
  silent: boolean; // no coin showed heads: dummies go out once all the same
  atOnce: number; // reports of a request, which a relay may find too many
  tried: Readonly<Record<number, number>>; // how often each relay was on the way
  refusals: number; // of whole requests, in a row
  tries: number;
  next: number;
  trouble: string;
  ended: number;
}

/** An artifact that a job considered. Its row stays, without its text, when its searches are deleted. */
export interface Outgoing {
  readonly id: number;
  readonly job: string;
  artifact: string;
  typed: string;
  struck: boolean; // by its owner: neither asked about nor sent
  heads: boolean;
  asked: boolean; // in a round whose reports are made
  outputs: readonly string[] | null;
  report: Uint8Array | null;
  sent: number | null;
  refusals: number; // by relays on different ways, each of which may lie
  unsent: string; // why it never will be: a key of _locales, or what a program said
}

interface Schema extends DBSchema {
  search: { key: number; value: Omit<Entry, "id"> & { id?: number }; indexes: { time: number; site: string } };
  setting: { key: string; value: unknown };
  consent: { key: string; value: Answer };
  job: { key: string; value: KnownJob };
  run: { key: string; value: Run };
  outbox: { key: number; value: Omit<Outgoing, "id"> & { id?: number }; indexes: { job: string } };
}

const STORES = ["search", "setting", "consent", "job", "run", "outbox"] as const;
type Work = IDBPTransaction<Schema, (typeof STORES)[number][], "readwrite">;
export type Database = IDBPDatabase<Schema>;

export function openStore(name = "searchveil"): Promise<Database> {
  return openDB<Schema>(name, 1, {
    upgrade(database) {
      const searches = database.createObjectStore("search", { keyPath: "id", autoIncrement: true });
      searches.createIndex("time", "time");
      searches.createIndex("site", "site");
      database.createObjectStore("setting");
      database.createObjectStore("consent");
      database.createObjectStore("job", { keyPath: "id" });
      database.createObjectStore("run", { keyPath: "job" });
      database.createObjectStore("outbox", { keyPath: "id", autoIncrement: true }).createIndex("job", "job");
    },
    blocking(_current, _blocked, event) {
      (event.target as IDBDatabase).close(); // a newer version of the extension waits
    },
  });
}

/** One transaction over everything, written to the disk before it counts as done. */
export async function change<T>(database: Database, work: (tx: Work) => Promise<T>): Promise<T> {
  const tx = database.transaction([...STORES], "readwrite", { durability: "strict" });
  const done = tx.done;
  done.catch(() => undefined); // seen below, also where the work itself fails
  try {
    const result = await work(tx);
    await done;
    return result;
  } catch (error) {
    try {
      tx.abort();
    } catch {
      // It has ended already.
    }
    throw error;
  }
}

// --- Settings ---

export interface Settings {
  readonly paused: boolean;
  readonly allowPersonal: boolean;
  readonly keepDays: number; // 0: until deleted
  readonly waitMinutes: number; // at most, between tokens and reports
}

export const DEFAULTS: Settings = { paused: false, allowPersonal: false, keepDays: 90, waitMinutes: 10 };

export async function settings(database: Database): Promise<Settings> {
  const names = Object.keys(DEFAULTS) as (keyof Settings)[];
  const values = await Promise.all(names.map((name) => database.get("setting", name)));
  return Object.fromEntries(names.map((name, i) => [name, values[i] ?? DEFAULTS[name]])) as unknown as Settings;
}

export async function set<Name extends keyof Settings>(database: Database, name: Name, value: Settings[Name]): Promise<void> {
  await database.put("setting", value, name);
}

// --- Searches ---

/** In the order of time. */
export async function entries(database: Database): Promise<Entry[]> {
  return (await database.getAllFromIndex("search", "time")) as Entry[];
}

/** The day of an entry on this machine's clock, as 2026-11-18. */
export function dayOf(time: number): string {
  const date = new Date(time * 1000);
  return [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
}

/** The texts that their owner took the tick off, of a job that was not agreed to yet: kept until they are decided. */
export async function struck(database: Database, job: string): Promise<Set<string>> {
  return new Set(((await database.get("setting", draft(job))) ?? []) as string[]);
}

export async function strike(database: Database, job: string, text: string, out: boolean): Promise<void> {
  await change(database, async (tx) => {
    const now = new Set(((await tx.objectStore("setting").get(draft(job))) ?? []) as string[]);
    if (out) now.add(text);
    else now.delete(text);
    await tx.objectStore("setting").put([...now], draft(job));
  });
}

const draft = (job: string): string => `struck ${job}`;

/** What was decided about is in the outbox now. */
export async function decided(tx: Work, job: string, texts: ReadonlySet<string>): Promise<void> {
  const left = (((await tx.objectStore("setting").get(draft(job))) ?? []) as string[]).filter((text) => !texts.has(text));
  await tx.objectStore("setting").put(left, draft(job));
}

/** Leave a crowd, and all that was agreed in it. */
export async function leave(database: Database): Promise<void> {
  await change(database, async (tx) => {
    const settings = tx.objectStore("setting");
    for (const { id } of await tx.objectStore("job").getAll()) await settings.delete(draft(id));
    await settings.delete("member");
    for (const name of ["consent", "job", "run", "outbox"] as const) await tx.objectStore(name).clear();
  });
}

/** Delete entries, along with what waits to be sent and follows from no other entry; how many went. */
export async function deleteWhere(database: Database, goes: (entry: Entry) => boolean): Promise<number> {
  return change(database, async (tx) => {
    const searches = tx.objectStore("search");
    const all = (await searches.index("time").getAll()) as Entry[];
    const gone = all.filter(goes);
    if (gone.length === 0) return 0;
    for (const { id } of gone) await searches.delete(id);
    const left = all.filter((entry) => !goes(entry));
    for (const run of await tx.objectStore("run").getAll()) await withdraw(tx, run, left);
    for (const { id, text } of await tx.objectStore("job").getAll()) {
      const given = new Set(taken(jobOf(text), left).map((one) => one.text));
      const texts = ((await tx.objectStore("setting").get(draft(id))) ?? []) as string[];
      await decided(tx, id, new Set(texts.filter((one) => !given.has(one))));
    }
    return gone.length;
  });
}

/** Take out of a job's outbox what the searches that are left do not give; what was sent loses its text. */
async function withdraw(tx: Work, run: Run, left: readonly Search[]): Promise<void> {
  const known = await tx.objectStore("job").get(run.job);
  const job = known === undefined ? null : jobOf(known.text);
  const given = counted(job, left);
  const repeats = job !== null && perArtifact(job.policy);
  const outbox = tx.objectStore("outbox");
  const rows = ((await outbox.index("job").getAll(run.job)) as Outgoing[]).filter((row) => row.artifact !== "");
  rows.sort((one, other) => Number(other.sent !== null) - Number(one.sent !== null) || one.id - other.id);
  let questions = false;
  for (const row of rows) {
    const key = JSON.stringify([row.artifact, row.struck ? null : row.typed]);
    const times = given.get(key) ?? 0;
    if (times > 0) {
      if (repeats) given.set(key, times - 1);
    } else if (row.asked && row.sent === null) {
      await outbox.delete(row.id);
    } else {
      // Before its reports are made, a round has a token for each row.
      questions ||= !row.asked;
      await outbox.put({ ...row, artifact: "", typed: "", report: null, outputs: null, heads: row.sent !== null });
    }
  }
  if (questions && run.state === "asking") await askAnew(tx, run);
}

function taken(job: Job | null, left: readonly Search[]): Artifact[] {
  return job === null ? [] : (KINDS[job.artifact]?.extract(left, job.domains) ?? []);
}

/** What a job takes from searches, as often as it does; struck ones are known by their text alone. */
function counted(job: Job | null, left: readonly Search[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const { text, typed } of taken(job, left)) {
    for (const key of [JSON.stringify([text, spelling(job as Job, typed)]), JSON.stringify([text, null])]) {
      found.set(key, (found.get(key) ?? 0) + 1);
    }
  }
  return found;
}

/** These tokens may have been spent on the old questions. */
async function askAnew(tx: Work, run: Run): Promise<void> {
  const number = fromText(run.randomnessTokens).nonces.length;
  await tx.objectStore("run").put({ ...run, randomnessTokens: toText(freshRequest(number)) });
  const outbox = tx.objectStore("outbox");
  for (const row of await outbox.index("job").getAll(run.job)) if (!row.asked) await outbox.put({ ...row, outputs: null });
}

/** Everything that was ever kept, settings and membership included. */
export async function forgetEverything(database: Database): Promise<void> {
  await change(database, async (tx) => {
    for (const name of STORES) await tx.objectStore(name).clear();
  });
}

// --- Consent and history ---

export async function consent(database: Database, job: string): Promise<Answer> {
  return (await database.get("consent", job)) ?? "ask";
}

export async function outgoing(database: Database, job: string): Promise<Outgoing[]> {
  return (await database.getAllFromIndex("outbox", "job", job)) as Outgoing[];
}
