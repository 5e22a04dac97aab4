// The client: takes artifacts out of the log and sends them as a job asks, if its owner agrees.
// src/searchveil/crowd/client.py is the reference.
//
// Every step is written down before it is taken, so that a worker that was put to sleep goes on where it was: the same
// tokens, the same reports. Nothing is sent twice that would count twice.

import type { Artifact } from "./artifacts.js";
import { bigEndian, equal, hex, join, random, shuffled, split, unhex, uniform, utf8 } from "./bytes.js";
import { beyond, further, sends, usable } from "./choice.js";
import type { Member, RelayAddress } from "./community.js";
import { type Http, HttpError } from "./http.js";
import { isOpen, type Job, JobError, jobOf, readEpochs, readJob, spelling } from "./jobs.js";
import { perArtifact } from "./policy.js";
import { dummy, freshNumber, makeReport, primaryInput, receipt, seal, secondaryInput, shareNumber } from "./report.js";
import { type Answer, change, type Database, decided, entries, type Outgoing, outgoing, type Run, settings, struck } from "./store.js";
import { body, credential, freshRequest, fromText, tokens, toText } from "./tokens.js";
import { blind, finalize } from "./voprf.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha512 } from "@noble/hashes/sha2.js";

const BATCH = 64; // evaluations that one token pays for
const ROUNDED_TO = 8; // reports of a request, dummies included: their number shows little
const MOST_AT_ONCE = 500;
const ANSWER_BYTES = 1 + 16;
const [ACCEPTED, REFUSED] = [0, 1];
const ENOUGH = 3; // requests in a row that relays refuse as such: then nothing more is tried
const MOST_JOBS = 200;
const LATE = 600; // seconds after its end that a job still takes reports
const DAY = 24 * 3600 * 1000;
const FIRST_PAUSE = 30_000; // milliseconds after a failure, doubled each time
const LONGEST_PAUSE = 3_600_000;

/** What a job would do now. */
export interface Preview {
  readonly sent: Artifact[];
  readonly kept: Artifact[]; // considered, but the coin keeps them back
  readonly beyond: number; // more than the job takes of one member
  readonly tooLong: number;
}

/** An artifact as its owner saw it on the consent page. */
export interface Decided extends Artifact {
  readonly struck: boolean;
}

/** Something else changed what a step was working on: it begins anew. */
class Changed extends Error {}

/** Paused, answered with never, or left: nothing more goes out. */
class Stopped extends Error {}

export class Client {
  constructor(
    private readonly database: Database,
    private readonly http: Http,
    private readonly clock: () => number = Date.now,
  ) {}

  async member(): Promise<Member | null> {
    return ((await this.database.get("setting", "member")) as Member | undefined) ?? null;
  }

  private now(): number {
    return this.clock() / 1000;
  }

  // --- Jobs ---

  /** Ask the server for its jobs. One that is forged stops everything: none of the answer is taken. */
  async refresh(): Promise<void> {
    const member = await this.member();
    if (member === null) return;
    let problem = "";
    try {
      const documents = await this.http.json(`${member.community.server}/jobs`);
      if (!Array.isArray(documents) || documents.length > MOST_JOBS) throw new JobError("job_forged");
      const jobs = documents.map((document) => readJob(document, unhex(member.community.signer)));
      await change(this.database, async (tx) => {
        const now = (await tx.objectStore("setting").get("member")) as Member | undefined;
        if (now?.community.signer !== member.community.signer) return; // left meanwhile
        for (const { id, text } of jobs) await tx.objectStore("job").put({ id, text });
        for (const { id, text } of await tx.objectStore("job").getAll()) {
          const job = jobOf(text);
          const over = job === null || this.now() > job.expires + LATE;
          if (over && (await tx.objectStore("outbox").index("job").count(id)) === 0) await tx.objectStore("job").delete(id);
        }
      });
    } catch (error) {
      problem = error instanceof JobError ? error.message : "server_unreachable";
    }
    await this.database.put("setting", problem, "problem");
    await this.database.put("setting", this.clock(), "refreshed");
  }

  async jobs(): Promise<Job[]> {
    const known = await this.database.getAll("job");
    const jobs = known.map(({ text }) => jobOf(text)).filter((job): job is Job => job !== null);
    return jobs.sort((one, other) => other.opens - one.opens || (one.id < other.id ? -1 : 1));
  }

  /** What would be taken and was not considered before: shown before anything is sent. */
  async preview(job: Job): Promise<Preview> {
    const member = await this.member();
    const searches = await entries(this.database);
    const rows = await outgoing(this.database, job.id);
    const found = further(job, searches, ...considered(rows));
    const heads = found.map((one) => member !== null && sends(job, unhex(member.secret), one.text));
    return {
      sent: found.filter((_, i) => heads[i]),
      kept: found.filter((_, i) => !heads[i]),
      beyond: beyond(job, searches, ...considered(rows)),
      tooLong: usable(job, searches).tooLong,
    };
  }

  /** Whether a job waits for its owner's answer. */
  async waits(job: Job): Promise<boolean> {
    const [answer, run] = await Promise.all([this.database.get("consent", job.id), this.database.get("run", job.id)]);
    if (!isOpen(job, this.now()) || (answer ?? "ask") !== "ask" || (run !== undefined && run.state !== "done")) return false;
    const { sent, kept } = await this.preview(job);
    return sent.length + kept.length > 0;
  }

  async answer(job: string, answer: Answer): Promise<void> {
    await this.database.put("consent", answer, job);
  }

  /** Begin a round with what its owner saw, and has not struck out. False if one is on its way. */
  async begin(job: Job, seen: readonly Decided[] | null): Promise<boolean> {
    const member = await this.member();
    const run = await this.database.get("run", job.id);
    const { paused } = await settings(this.database);
    if (member === null || paused || !isOpen(job, this.now()) || (run !== undefined && run.state !== "done")) return false;
    const rows = await outgoing(this.database, job.id);
    const now = further(job, await entries(this.database), ...considered(rows));
    const wanted = seen === null ? now.map((one) => ({ ...one, struck: false })) : stillThere(seen, now);
    // A text is struck out wherever it stands, and also where another page has shown it with its tick.
    const out = new Set([...(await struck(this.database, job.id)), ...wanted.filter((one) => one.struck).map((one) => one.text)]);
    const chosen = wanted.map((one) => ({ ...one, struck: out.has(one.text) }));
    if (chosen.length === 0) return false;
    // Tokens of other machines of this member count against them.
    const url = `${member.community.server}/tokens/${job.id}`;
    const { left } = (await this.http.json(url, credential(member.invitation, "server"))) as { left: number };
    if (!Number.isInteger(left) || left < 1) throw new JobError("no_tokens");
    await this.writeDown(job, member, chosen.slice(0, left), rows.length);
    return true;
  }

  /** Which artifacts are considered. There is a token for each of them, whatever the coins and its owner say. */
  private async writeDown(job: Job, member: Member, chosen: readonly Decided[], before: number): Promise<void> {
    const inputs = chosen.length * (job.secondary_k === null ? 1 : 2);
    const run: Run = {
      job: job.id,
      state: "asking",
      reportTokens: toText(freshRequest(chosen.length)),
      randomnessTokens: toText(freshRequest(Math.ceil(inputs / BATCH))),
      blinding: hex(random(32)),
      sendAfter: 0,
      silent: false,
      atOnce: MOST_AT_ONCE,
      tried: {},
      refusals: 0,
      tries: 0,
      next: 0,
      trouble: "",
      ended: 0,
    };
    const rows = chosen.map(({ text, typed, struck }) => ({
      job: job.id,
      artifact: text,
      typed: spelling(job, typed),
      struck,
      heads: !struck && sends(job, unhex(member.secret), text),
      asked: false,
      outputs: null,
      report: null,
      sent: null,
      refusals: 0,
      unsent: "",
    }));
    await change(this.database, async (tx) => {
      const other = await tx.objectStore("run").get(job.id);
      const there = await tx.objectStore("outbox").index("job").count(job.id);
      const now = (await tx.objectStore("setting").get("member")) as Member | undefined;
      if ((other !== undefined && other.state !== "done") || there !== before || now?.secret !== member.secret) throw new Changed();
      await decided(tx, job.id, new Set(chosen.map((one) => one.text)));
      await tx.objectStore("run").put(run);
      for (const row of rows) await tx.objectStore("outbox").add(row);
    });
  }

  // --- Work ---

  /** Go on with every round; when to call again, in milliseconds since 1970, or null if nothing is left to do. */
  async work(): Promise<number | null> {
    const { paused } = await settings(this.database);
    const member = await this.member();
    if (paused || member === null) return null;
    for (const job of await this.jobs()) await this.beginAgain(job);
    const times: number[] = [];
    for (const run of await this.database.getAll("run")) {
      if (run.state === "done" || (await this.database.get("consent", run.job)) === "never") continue;
      times.push(...(await this.goOn(run.job, member)));
    }
    return times.length === 0 ? null : Math.min(...times);
  }

  /** Of a job that may always run: what was searched since, once a day, so that times tell little. */
  private async beginAgain(job: Job): Promise<void> {
    if ((await this.database.get("consent", job.id)) !== "always") return;
    const run = await this.database.get("run", job.id);
    if (run === undefined || run.state !== "done" || this.clock() < run.ended + DAY) return;
    try {
      await this.begin(job, null);
    } catch (error) {
      if (!(error instanceof Changed || error instanceof HttpError || error instanceof JobError)) throw error;
    }
  }

  /** The steps of one round, as far as they come; when to try again. */
  private async goOn(name: string, member: Member): Promise<number[]> {
    for (;;) {
      const run = await this.database.get("run", name);
      const known = await this.database.get("job", name);
      const job = known === undefined ? null : jobOf(known.text);
      if (run === undefined || run.state === "done") return [];
      if (job === null || this.now() > job.expires + LATE) return this.end(run.job, "job_over");
      const due = Math.max(run.next, run.state === "sending" ? run.sendAfter : 0);
      if (this.clock() < due) return [due];
      try {
        await (run.state === "asking" ? this.makeReports(job, member, run) : this.send(job, member, run));
      } catch (error) {
        if (error instanceof Stopped) return [];
        if (!(error instanceof Changed)) return [await this.postpone(run, error)];
      }
    }
  }

  private async postpone(run: Run, error: unknown): Promise<number> {
    const next = this.clock() + Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** run.tries);
    const trouble = error instanceof HttpError || error instanceof JobError ? error.message : String(error);
    await change(this.database, async (tx) => {
      const now = await tx.objectStore("run").get(run.job);
      if (now !== undefined) await tx.objectStore("run").put({ ...now, next, trouble, tries: now.tries + 1 });
    });
    return next;
  }

  /** Go on with a round that waits after trouble, now. */
  async retry(name: string): Promise<void> {
    await change(this.database, async (tx) => {
      const run = await tx.objectStore("run").get(name);
      if (run !== undefined && run.state !== "done") await tx.objectStore("run").put({ ...run, next: 0 });
    });
  }

  /** An error if nothing may go out any more: asked before each request of a round. */
  private async still(job: Job, member: Member): Promise<void> {
    const { paused } = await settings(this.database);
    const [now, answer] = [await this.member(), await this.database.get("consent", job.id)];
    if (paused || answer === "never" || now?.secret !== member.secret) throw new Stopped();
  }

  /** A round is over; what is left of it is not sent any more, and its owner can read why. */
  private async end(name: string, why: string): Promise<number[]> {
    await change(this.database, async (tx) => {
      const run = await tx.objectStore("run").get(name);
      if (run === undefined) return;
      const outbox = tx.objectStore("outbox");
      for (const row of await outbox.index("job").getAll(name)) {
        if (row.sent !== null || row.struck || row.unsent !== "") continue;
        await outbox.put({ ...row, asked: true, report: null, outputs: null, heads: false, unsent: row.heads ? why : "" });
      }
      await tx.objectStore("run").put({ ...run, state: "done", reportTokens: "", randomnessTokens: "", trouble: "", ended: this.clock() });
    });
    return [];
  }

  // --- Asking ---

  private async makeReports(job: Job, member: Member, run: Run): Promise<void> {
    const asked = (await outgoing(this.database, job.id)).filter((row) => !row.asked);
    const paid = await this.tokens(`${member.community.server}/tokens/${job.id}`, job, member, "server", run.reportTokens, job.token_key);
    await this.askRandomness(job, member, run, asked);
    const { waitMinutes } = await settings(this.database);
    const rows = (await outgoing(this.database, job.id)).filter((row) => !row.asked);
    const reports = rows.map((row, i) => (row.heads ? this.report(job, member, row, paid[i] as Uint8Array) : null));
    await change(this.database, async (tx) => {
      const now = await tx.objectStore("run").get(job.id);
      if (now?.state !== "asking" || now.randomnessTokens !== run.randomnessTokens) throw new Changed();
      for (const [i, row] of rows.entries()) {
        await tx.objectStore("outbox").put({ ...row, asked: true, outputs: null, report: reports[i] as Uint8Array | null });
      }
      // The server knows who has just fetched tokens.
      const wait = uniform(Math.max(1, Math.round(waitMinutes * 60_000)));
      const sendAfter = Math.min(this.clock() + wait, job.expires * 1000);
      const silent = reports.every((report) => report === null);
      await tx.objectStore("run").put({ ...now, state: "sending", reportTokens: "", randomnessTokens: "", sendAfter, silent, tries: 0, next: 0, trouble: "" });
    });
  }

  private report(job: Job, member: Member, row: Outgoing, token: Uint8Array): Uint8Array {
    const id = unhex(job.id);
    const [output, ofSpelling] = (row.outputs ?? []).map(unhex);
    if (output === undefined) throw new Changed();
    const x = perArtifact(job.policy) ? freshNumber() : shareNumber(unhex(member.secret), id, row.artifact);
    const spelled =
      job.secondary_k === null || ofSpelling === undefined ? null : { typed: row.typed, output: ofSpelling, k: job.secondary_k };
    return makeReport({ job: id, text: row.artifact, output, k: job.policy.k, x, token, spelling: spelled });
  }

  private async tokens(url: string, job: Job, member: Member, program: "server" | "randomness", asked: string, key: string): Promise<Uint8Array[]> {
    const request = fromText(asked);
    if (request.nonces.length === 0) return [];
    await this.still(job, member);
    return tokens(request, unhex(key), await this.http.post(url, body(request), credential(member.invitation, program)));
  }

  /**
   * The randomness server's output for each artifact and, where the job wants them, for its spelling. It is asked about
   * all of them, also those that the coins keep back, and always in full batches; a batch is written down at once.
   */
  private async askRandomness(job: Job, member: Member, run: Run, rows: readonly Outgoing[]): Promise<void> {
    const { randomness, randomness_signer } = member.community;
    const epoch = readEpochs(await this.http.json(`${randomness}/epochs`), unhex(randomness_signer))[String(job.epoch)];
    if (epoch?.oprf !== job.randomness_key || epoch.token !== job.randomness_token_key) throw new JobError("epoch_keys");
    const paid = await this.tokens(`${randomness}/tokens/${job.epoch}`, job, member, "randomness", run.randomnessTokens, epoch.token);
    const per = job.secondary_k === null ? 1 : 2;
    for (const [i, token] of paid.entries()) {
      const some = rows.slice((i * BATCH) / per, ((i + 1) * BATCH) / per);
      if (some.some((row) => row.outputs === null)) await this.askOnce(job, member, run, token, some);
    }
  }

  private async askOnce(job: Job, member: Member, run: Run, token: Uint8Array, rows: readonly Outgoing[]): Promise<void> {
    const inputs = rows.flatMap((row) => questions(job, row));
    while (inputs.length < BATCH) inputs.push(new Uint8Array());
    // The blinds follow from the token and random bytes of this machine, so that a stopped round asks the same question.
    const blinded = inputs.map((input, i) => blind(input, blindingSeed(unhex(run.blinding), token, i)));
    const asked = join(token, ...blinded.map((one) => one.element));
    await this.still(job, member);
    const answer = await this.http.post(`${member.community.randomness}/evaluate/${job.epoch}`, asked);
    const outputs = finalize(unhex(job.randomness_key), inputs, blinded, answer).map(hex);
    const per = job.secondary_k === null ? 1 : 2;
    await change(this.database, async (tx) => {
      const now = await tx.objectStore("run").get(job.id);
      if (now?.state !== "asking" || now.randomnessTokens !== run.randomnessTokens) throw new Changed();
      for (const [i, row] of rows.entries()) {
        await tx.objectStore("outbox").put({ ...row, outputs: outputs.slice(per * i, per * (i + 1)) });
      }
    });
  }

  // --- Sending ---

  /** Every report that has no receipt yet, with dummies among them, over a way of its own each time. */
  private async send(job: Job, member: Member, run: Run): Promise<void> {
    const rows = await this.waiting(job);
    if (rows.length === 0 && !run.silent) {
      await this.end(job.id, "");
      return;
    }
    const id = unhex(job.id);
    const missing = rows.length === 0 ? ROUNDED_TO : (ROUNDED_TO - (rows.length % ROUNDED_TO)) % ROUNDED_TO;
    const mixed: Mixed[] = rows.map((row) => ({ row, report: row.report as Uint8Array }));
    for (let i = 0; i < missing; i++) mixed.push({ row: null, report: dummy(id) });
    const sending = shuffled(mixed);
    const way = await this.way(job, member);
    for (let start = 0; start < sending.length; start += run.atOnce) {
      await this.sendSome(job, member, way, sending.slice(start, start + run.atOnce));
    }
    if ((await this.waiting(job)).length > 0) throw new HttpError("not_delivered");
  }

  private async waiting(job: Job): Promise<Outgoing[]> {
    return (await outgoing(this.database, job.id)).filter((row) => row.report !== null && row.sent === null && row.unsent === "");
  }

  /** Relays by chance, of those that were tried least: another way than before, if there is one. */
  private async way(job: Job, { community }: Member): Promise<RelayAddress[]> {
    return change(this.database, async (tx) => {
      const run = await tx.objectStore("run").get(job.id);
      if (run?.state !== "sending") throw new Changed();
      const times = (one: RelayAddress): number => run.tried[one.number] ?? 0;
      const way = shuffled(shuffled(community.relays).sort((one, other) => times(one) - times(other)).slice(0, community.hops));
      const tried = { ...run.tried, ...Object.fromEntries(way.map((one) => [one.number, times(one) + 1])) };
      // Dummies for a round that sends nothing go out once, whatever becomes of them.
      await tx.objectStore("run").put({ ...run, tried, silent: false });
      return way;
    });
  }

  private async sendSome(job: Job, member: Member, way: readonly RelayAddress[], all: readonly Mixed[]): Promise<void> {
    const hops = way.map((one) => ({ number: one.number, key: unhex(one.key) }));
    const seals = await Promise.all(all.map(({ report }) => seal(report, unhex(member.community.server_key), hops)));
    // What was deleted meanwhile stays here, as late as that can be.
    const left = new Set((await this.waiting(job)).map((row) => row.id));
    const some = all.filter(({ row }) => row === null || left.has(row.id));
    const sealed = seals.filter((_, i) => some.includes(all[i] as Mixed));
    if (some.length === 0) return;
    await this.still(job, member);
    const first = way[0]?.url.replace(/\/+$/, "") ?? "";
    let answer: Uint8Array;
    try {
      answer = await this.http.post(`${first}/reports/${way.length}`, join(...sealed));
    } catch (error) {
      throw error instanceof HttpError ? await this.refusal(job, member, all.length, error) : error;
    }
    if (answer.length !== some.length * ANSWER_BYTES) throw new HttpError("relay_unreachable");
    await this.note(job, member, some, split(answer, ANSWER_BYTES));
  }

  /** What a relay means that takes none of a request: later, or less at once, or never. */
  private async refusal(job: Job, { community }: Member, size: number, error: HttpError): Promise<Error> {
    if (error.passes) return new HttpError(error.status === 429 || error.status === 503 ? "relay_busy" : "relay_unreachable");
    return change(this.database, async (tx) => {
      const run = await tx.objectStore("run").get(job.id);
      if (run?.state !== "sending") return new Changed();
      if (error.status === 413 && size > ROUNDED_TO) {
        const half = Math.ceil(size / 2 / ROUNDED_TO) * ROUNDED_TO;
        await tx.objectStore("run").put({ ...run, atOnce: half < size ? half : ROUNDED_TO });
        return new Changed();
      }
      const refusals = run.refusals + 1;
      await tx.objectStore("run").put({ ...run, refusals });
      if (refusals < Math.max(ENOUGH, community.relays.length)) return new HttpError(error.message, error.status);
      const outbox = tx.objectStore("outbox");
      for (const row of await outbox.index("job").getAll(job.id)) {
        const gone = row.report !== null && row.sent === null && row.unsent === "";
        if (gone) await outbox.put({ ...row, report: null, heads: false, unsent: error.message });
      }
      return new Changed();
    });
  }

  /**
   * Write down which reports have a right receipt, and which were refused. A relay may lie about that: a refusal is
   * believed when a second way repeats it, if there is one.
   */
  private async note(job: Job, member: Member, some: readonly Mixed[], answers: readonly Uint8Array[]): Promise<void> {
    await change(this.database, async (tx) => {
      const run = await tx.objectStore("run").get(job.id);
      if (run === undefined) return; // left meanwhile
      await tx.objectStore("run").put({ ...run, refusals: 0 });
      for (const [i, { row, report }] of some.entries()) {
        const answer = answers[i] as Uint8Array;
        const now = row === null ? undefined : ((await tx.objectStore("outbox").get(row.id)) as Outgoing | undefined);
        const accepted = answer[0] === ACCEPTED && equal(answer.slice(1), receipt(report));
        if (now === undefined) {
          if (row !== null && accepted) await tx.objectStore("outbox").put(deleted(row, job.id, this.clock()));
        } else if (accepted) {
          await tx.objectStore("outbox").put({ ...now, sent: this.clock(), report: null });
        } else if (answer[0] === REFUSED) {
          const refusals = now.refusals + 1;
          const final = refusals >= Math.min(2, member.community.relays.length);
          await tx.objectStore("outbox").put({ ...now, refusals, ...(final ? { report: null, heads: false, unsent: "refused" } : {}) });
        }
      }
    });
  }
}

/** A report on its way, or a dummy. */
interface Mixed {
  readonly row: Outgoing | null;
  readonly report: Uint8Array;
}

/** 64 bytes that the blind of an input follows from, which nobody else can compute from the token. */
export function blindingSeed(kept: Uint8Array, token: Uint8Array, number: number): Uint8Array {
  return hmac(sha512, kept, join(utf8("searchveil crowd blind v1"), token, bigEndian(number, 4)));
}

/** What was deleted while it was on its way: that something was sent stays, what it was does not. */
function deleted(row: Outgoing, job: string, sent: number): Outgoing {
  return { ...row, job, artifact: "", typed: "", report: null, outputs: null, sent };
}

/** What the randomness server is asked for a row; nothing of what was struck out or deleted. */
function questions(job: Job, row: Outgoing): Uint8Array[] {
  const [id, silent] = [unhex(job.id), row.struck || row.artifact === ""];
  const primary = silent ? new Uint8Array() : primaryInput(id, row.artifact);
  if (job.secondary_k === null) return [primary];
  return [primary, silent ? new Uint8Array() : secondaryInput(id, row.artifact, row.typed)];
}

/** The texts that a job has considered, and those that its owner struck out: these stay out for good. */
function considered(rows: readonly Outgoing[]): [string[], Set<string>] {
  return [rows.map((row) => row.artifact), new Set(rows.filter((row) => row.struck).map((row) => row.artifact))];
}

/** What its owner saw, as far as the log still gives it. */
function stillThere(seen: readonly Decided[], now: readonly Artifact[]): Decided[] {
  const left = new Map<string, number>();
  const key = (one: Artifact): string => JSON.stringify([one.text, one.typed]);
  for (const one of now) left.set(key(one), (left.get(key(one)) ?? 0) + 1);
  return seen.filter((one) => {
    const times = left.get(key(one)) ?? 0;
    left.set(key(one), times - 1);
    return times > 0;
  });
}
