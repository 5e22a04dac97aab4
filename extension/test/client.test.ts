// The client's rounds: agreed to, struck out, taken back, interrupted at any moment; nothing lost, nothing twice.

import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { test } from "node:test";
import { equal, unhex } from "../src/core/bytes.js";
import { blindingSeed, Client, type Decided } from "../src/core/client.js";
import type { Job } from "../src/core/jobs.js";
import { coin, heads, primaryInput, secretOf, share, tagOf } from "../src/core/report.js";
import { type Database, deleteWhere, forgetEverything, leave, openStore, outgoing, set, strike, struck } from "../src/core/store.js";
import { blind } from "../src/core/voprf.js";
import { type Fault, Programs } from "./programs.js";
import { httpBy } from "../src/core/http.js";
import { REPORT_BYTES } from "../src/core/report.js";

let stores = 0;

async function member(programs: Programs, ...queries: readonly string[]): Promise<{ database: Database; client: Client }> {
  const database = await openStore(`test-${stores++}`);
  await database.put("setting", programs.member, "member");
  await set(database, "waitMinutes", 0);
  await type(database, 1, ...queries);
  return { database, client: new Client(database, programs.http, () => programs.clock) };
}

async function type(database: Database, from: number, ...queries: readonly string[]): Promise<void> {
  for (const [i, query] of queries.entries()) await database.add("search", { query, time: from + i, url: null, rank: null, site: "Google" });
}

/** Agree to what is shown, but for what is struck out. */
async function agree(client: Client, job: Job, ...struck: readonly string[]): Promise<boolean> {
  const { sent, kept } = await client.preview(job);
  const seen: Decided[] = [...sent, ...kept].map((one) => ({ ...one, struck: struck.includes(one.text) }));
  return client.begin(job, seen);
}

/** Work and let time pass until nothing is left to do. */
async function finish(client: Client, programs: Programs): Promise<void> {
  for (let i = 0; i < 200; i++) {
    const next = await client.work();
    if (next === null) return;
    programs.clock = Math.max(programs.clock, next);
  }
  assert.fail("the work never ends");
}

/** The texts that arrived, as the holder of all keys finds them. */
function texts(programs: Programs, job: Job, guesses: readonly string[]): string[] {
  const tags = new Map(guesses.map((text) => [tagFor(programs, job, text), text]));
  return programs.arrived(job).map((one) => tags.get(one.tag) ?? "unknown").sort();
}

function tagFor(programs: Programs, job: Job, text: string): string {
  return Buffer.from(tagOf(secretOf(programs.output(primaryInput(unhex(job.id), text))))).toString("hex");
}

test("what was agreed to arrives once, among dummies; what was struck out is not even asked about", async () => {
  const programs = new Programs();
  const job = programs.job({ k: 3 });
  const { database, client } = await member(programs, "New  York", "secret", "new york", "weather");
  await client.refresh();
  assert.equal(await client.waits(job), true);
  assert.deepEqual((await client.preview(job)).sent.map((one) => one.text), ["new york", "secret", "weather"]);
  assert.equal(await agree(client, job, "secret"), true);
  assert.equal(await agree(client, job), false, "one round at a time");
  const blinding = unhex((await database.get("run", job.id))?.blinding ?? "");
  await finish(client, programs);
  assert.deepEqual(texts(programs, job, ["new york", "secret", "weather"]), ["new york", "weather"]);
  assert.equal(programs.dummies, 6);
  const one = programs.arrived(job).find((report) => report.tag === tagFor(programs, job, "weather"));
  assert.equal(one?.y, share(secretOf(programs.output(primaryInput(unhex(job.id), "weather"))), 3, one?.x ?? 0n));
  assert.deepEqual((await outgoing(database, job.id)).map((row) => [row.artifact, row.sent !== null]), [["new york", true], ["secret", false], ["weather", true]]);
  assert.equal(await client.waits(job), false);
  await type(database, 10, "later", "secret");
  assert.deepEqual((await client.preview(job)).sent.map((each) => each.text), ["later"]);
  const [question, ...others] = programs.asked.filter(({ url }) => url.includes("/evaluate/")).map(({ body }) => body ?? new Uint8Array());
  assert.deepEqual(others, [], "one full batch");
  const asked = (number: number, input: Uint8Array): boolean => {
    const token = (question as Uint8Array).slice(0, 96);
    const element = (question as Uint8Array).slice(96 + 32 * number, 128 + 32 * number);
    return equal(blind(input, blindingSeed(blinding, token, number)).element, element);
  };
  assert.ok(asked(0, primaryInput(unhex(job.id), "new york")));
  assert.ok(asked(1, new Uint8Array()), "an empty question in place of what was struck out");
});

test("always: what is searched later goes out a day later, and never twice", async () => {
  const programs = new Programs();
  const job = programs.job({}, { expires: Math.floor(programs.clock / 1000) + 7 * 86_400 });
  const { database, client } = await member(programs, "first");
  await client.refresh();
  await agree(client, job);
  await client.answer(job.id, "always");
  await finish(client, programs);
  await type(database, 10, "first", "second");
  await finish(client, programs);
  assert.deepEqual(texts(programs, job, ["first", "second"]), ["first"]);
  programs.clock += 25 * 3_600_000;
  await finish(client, programs);
  assert.deepEqual(texts(programs, job, ["first", "second"]), ["first", "second"]);
  await client.answer(job.id, "never");
  await type(database, 20, "third");
  programs.clock += 25 * 3_600_000;
  await finish(client, programs);
  assert.equal(programs.arrived(job).length, 2);
});

test("ST_u sends what its coins say, and asks about all the same", async () => {
  const programs = new Programs();
  const job = programs.job({ name: "ST_u", k: 40, per_user: 1, p: 0.5, epsilon: 1, delta: 1e-6 });
  const queries = ["a", "b", "c", "d"];
  const { database, client } = await member(programs, "a");
  await client.refresh();
  assert.equal((await client.jobs()).length, 1, String(await database.get("setting", "problem")));
  const expected = queries.map((text) => heads(coin(unhex(programs.member.secret), unhex(job.id), text), 0.5));
  const { sent, kept } = await client.preview(job);
  assert.deepEqual([sent.length, kept.length], expected[0] ? [1, 0] : [0, 1]);
  await agree(client, job);
  await finish(client, programs);
  assert.equal(programs.arrived(job).length, expected[0] ? 1 : 0);
  assert.equal(programs.dummies, expected[0] ? 7 : 8, "eight reports go out in any case");
});

test("nothing is sent while paused, without a first consent, after never, or after the end", async () => {
  const programs = new Programs();
  const job = programs.job({});
  const { database, client } = await member(programs, "quiet");
  await client.refresh();
  await finish(client, programs);
  await set(database, "paused", true);
  assert.equal(await agree(client, job), false);
  await set(database, "paused", false);
  programs.fault = ({ url }) => (url.includes("/reports/") ? "before" : null);
  await agree(client, job);
  await client.work();
  programs.fault = () => null;
  await client.answer(job.id, "never");
  programs.clock += 3_600_000;
  await finish(client, programs);
  assert.equal(programs.arrived(job).length, 0);
  await client.answer(job.id, "ask");
  programs.clock = (job.expires + 3600) * 1000;
  await finish(client, programs);
  assert.equal(programs.arrived(job).length, 0);
  assert.equal((await database.get("run", job.id))?.state, "done");
});

test("what is deleted before it is sent is not sent, whatever stage it is in", async () => {
  for (const stage of ["/tokens/", "/evaluate/", "/reports/"]) {
    const programs = new Programs();
    const job = programs.job({});
    const { database, client } = await member(programs, "stays", "goes", "stays too");
    await client.refresh();
    let begun = false;
    programs.fault = ({ url, body }) => (begun && body !== null && url.includes(stage) ? "after" : null);
    begun = true;
    await agree(client, job);
    await client.work();
    assert.equal(await deleteWhere(database, (entry) => entry.query === "goes"), 1);
    programs.fault = () => null;
    await finish(client, programs);
    // The first answer was lost behind the server: then it had gone already.
    const expected = stage === "/reports/" ? ["goes", "stays", "stays too"] : ["stays", "stays too"];
    assert.deepEqual(texts(programs, job, ["stays", "goes", "stays too"]), expected, stage);
    const rows = await outgoing(database, job.id);
    assert.ok(rows.every((row) => row.artifact !== "goes"), stage);
  }
});

test("an unsent report that is deleted stays here", async () => {
  const programs = new Programs();
  const job = programs.job({ name: "FT_a", k: 2 });
  const { database, client } = await member(programs, "twice", "twice", "goes");
  await client.refresh();
  programs.fault = ({ url }) => (url.includes("/reports/") ? "before" : null);
  await agree(client, job);
  await client.work();
  await deleteWhere(database, (entry) => entry.query === "goes" || entry.time === 1);
  programs.fault = () => null;
  await finish(client, programs);
  assert.deepEqual(texts(programs, job, ["twice", "goes"]), ["twice"]);
});

test("what was struck out is kept until it is decided, and goes with its searches", async () => {
  const programs = new Programs();
  const job = programs.job({ name: "FT_a", k: 2 }, { expires: Math.floor(programs.clock / 1000) + 7 * 86_400 });
  const { database, client } = await member(programs, "shown", "secret", "gone", "secret");
  await client.refresh();
  for (const text of ["secret", "gone", "shown"]) await strike(database, job.id, text, true);
  await strike(database, job.id, "shown", false);
  assert.deepEqual([...(await struck(database, job.id))], ["secret", "gone"]);
  await deleteWhere(database, (entry) => entry.query === "gone");
  assert.deepEqual([...(await struck(database, job.id))], ["secret"]);
  // A page that was drawn before shows its tick still.
  assert.equal(await agree(client, job), true);
  await client.answer(job.id, "always");
  await finish(client, programs);
  assert.deepEqual(texts(programs, job, ["shown", "secret"]), ["shown"]);
  assert.deepEqual([...(await struck(database, job.id))], []);
  await type(database, 10, "secret", "private", "later");
  await strike(database, job.id, "private", true);
  programs.clock += 25 * 3_600_000;
  await finish(client, programs);
  assert.deepEqual(texts(programs, job, ["shown", "secret", "private", "later"]), ["later", "shown"]);
  await strike(database, job.id, "anything", true);
  await leave(database);
  assert.deepEqual(await database.getAllKeys("setting"), ["problem", "refreshed", "waitMinutes"]);
});

test("a text that is struck out once is struck out everywhere", async () => {
  const programs = new Programs();
  const job = programs.job({ name: "FT_a", k: 2 });
  const { client } = await member(programs, "twice", "twice", "once");
  await client.refresh();
  const { sent } = await client.preview(job);
  assert.equal(await client.begin(job, sent.map((one, i) => ({ ...one, struck: i === 0 }))), true);
  await finish(client, programs);
  assert.deepEqual(texts(programs, job, ["twice", "once"]), ["once"]);
});

/** Until the first request of this kind, which is answered so; then work again with all well. */
async function answeredOnce(status: number, ...queries: readonly string[]): Promise<[string, string[], number[]]> {
  const programs = new Programs();
  const job = programs.job({ name: "FT_a", k: 2 });
  const { database, client } = await member(programs, ...queries);
  await client.refresh();
  const sizes: number[] = [];
  programs.fault = ({ url, body }) => {
    if (!url.includes("/reports/")) return null;
    sizes.push((body?.length ?? 0) / (REPORT_BYTES + 48 + 49));
    return sizes.length === 1 ? status : null;
  };
  await agree(client, job);
  await client.work();
  const trouble = (await database.get("run", job.id))?.trouble ?? "";
  await finish(client, programs);
  return [trouble, texts(programs, job, queries), sizes];
}

test("a relay with too much to do is asked later, with less at once where that is too much", async () => {
  for (const status of [429, 503]) assert.deepEqual(await answeredOnce(status, "query"), ["relay_busy", ["query"], [8, 8]]);
  assert.deepEqual(await answeredOnce(500, "query"), ["relay_unreachable", ["query"], [8, 8]]);
  const many = Array.from({ length: 20 }, (_, i) => `query ${i}`);
  assert.deepEqual(await answeredOnce(413, ...many), ["", many.toSorted(), [24, 16, 8]]);
  assert.deepEqual(await answeredOnce(403, "query"), ["403 no", ["query"], [8, 8]], "another way takes it");
});

test("relays that refuse for good end the round, and its owner can read why", async () => {
  const programs = new Programs();
  const job = programs.job({});
  const { database, client } = await member(programs, "query", "struck");
  await client.refresh();
  programs.fault = ({ url }) => (url.includes("/reports/") ? 413 : null);
  await agree(client, job, "struck");
  await finish(client, programs);
  const asked = programs.asked.filter(({ url }) => url.includes("/reports/"));
  assert.equal(new Set(asked.map(({ url }) => url)).size, 2, "both relays were tried");
  assert.equal(asked.length, 3);
  assert.equal((await database.get("run", job.id))?.state, "done");
  const rows = async (): Promise<unknown> => (await outgoing(database, job.id)).map((row) => [row.artifact, row.sent, row.unsent, row.report]);
  assert.deepEqual(await rows(), [["query", null, "413 no", null], ["struck", null, "", null]]);
  programs.fault = () => null;
  await client.answer(job.id, "always");
  programs.clock += 20 * 3_600_000;
  await finish(client, programs);
  assert.equal(programs.arrived(job).length, 0);
});

test("a relay that lies about a refusal is not believed; two are", async () => {
  for (const [lies, unsent] of [[1, ""], [2, "refused"]] as const) {
    const programs = new Programs();
    const job = programs.job({});
    const { database, client } = await member(programs, "query");
    await client.refresh();
    const told = new Map<string, number>();
    programs.lies = (report) => {
      told.set(report, (told.get(report) ?? 0) + 1);
      return (told.get(report) ?? 0) <= lies;
    };
    await agree(client, job);
    await finish(client, programs);
    assert.deepEqual((await outgoing(database, job.id)).map((row) => [row.sent !== null, row.unsent]), [[lies === 1, unsent]]);
  }
});

test("what a job's end overtakes is not sent, and says so", async () => {
  const programs = new Programs();
  const job = programs.job({});
  const { database, client } = await member(programs, "query", "struck");
  await client.refresh();
  programs.fault = ({ url }) => (url.includes("/reports/") ? "before" : null);
  await agree(client, job, "struck");
  await client.work();
  programs.clock = (job.expires + 3600) * 1000;
  programs.fault = () => null;
  await finish(client, programs);
  assert.deepEqual((await outgoing(database, job.id)).map((row) => row.unsent), ["job_over", ""]);
  assert.equal(programs.arrived(job).length, 0);
  await client.refresh();
  assert.equal((await client.jobs()).length, 1, "it has a history");
  const other = programs.job({}, { opens: job.opens, expires: job.expires - 10 });
  await client.refresh();
  assert.ok((await client.jobs()).every(({ id }) => id !== other.id), "a job that is over, and was never answered, goes");
});

test("pausing, never, and leaving stop a round before its next request", async () => {
  const stops: Record<string, (database: Database, client: Client, job: Job) => Promise<unknown>> = {
    pausing: (database) => set(database, "paused", true),
    never: (_, client, job) => client.answer(job.id, "never"),
    leaving: (database) => leave(database),
    forgetting: (database) => forgetEverything(database),
  };
  for (const [how, stop] of Object.entries(stops)) {
    for (const stage of ["/tokens/", "/epochs", "/evaluate/"]) {
      const programs = new Programs();
      const job = programs.job({});
      const { database, client } = await member(programs, "query");
      await client.refresh();
      await agree(client, job);
      const before = programs.asked.length;
      let stopped = -1;
      const slow = httpBy(async (question) => {
        const answer = await programs.carry(question);
        if (stopped < 0 && question.url.includes(stage)) {
          await stop(database, client, job);
          stopped = programs.asked.length;
        }
        return answer;
      });
      assert.equal(await new Client(database, slow, () => programs.clock).work(), null, `${how} ${stage}`);
      assert.ok(stopped > before);
      // The keys of the randomness server may still be looked at: that request is everybody's.
      const later = programs.asked.slice(stopped).filter(({ url }) => !url.endsWith("/epochs"));
      assert.deepEqual(later, [], `${how} ${stage}`);
      assert.deepEqual((await outgoing(database, job.id)).filter((row) => row.sent !== null), []);
      if (how !== "pausing" && how !== "never") assert.equal(await database.count("run"), 0, how);
    }
  }
});

test("what is deleted while a batch is on its way is not in the next", async () => {
  const programs = new Programs();
  const job = programs.job({});
  const queries = Array.from({ length: 20 }, (_, i) => `query ${i}`);
  const { database, client } = await member(programs, ...queries);
  await client.refresh();
  await agree(client, job);
  let sent = 0;
  const slow = httpBy(async (question) => {
    if (!question.url.includes("/reports/")) return programs.carry(question);
    sent += 1;
    if (sent === 1) return { status: 413, body: new ArrayBuffer(0) };
    const answer = await programs.carry(question);
    if (sent === 2) await deleteWhere(database, () => true);
    return answer;
  });
  await finish(new Client(database, slow, () => programs.clock), programs);
  assert.ok(sent >= 2);
  assert.ok(programs.arrived(job).length <= 16, "the first batch alone");
  const rows = await outgoing(database, job.id);
  assert.equal(rows.filter((row) => row.sent !== null).length, programs.arrived(job).length);
  assert.ok(rows.every((row) => row.artifact === ""));
});

test("a forged job stops everything", async () => {
  const [programs, others] = [new Programs(), new Programs()];
  others.job({});
  programs.job({});
  const { database, client } = await member(programs, "query");
  const real = programs.member.community;
  await database.put("setting", { ...programs.member, community: { ...real, signer: others.member.community.signer } }, "member");
  await client.refresh();
  assert.equal(await database.get("setting", "problem"), "job_forged");
  assert.deepEqual(await client.jobs(), []);
  await database.put("setting", programs.member, "member");
  await client.refresh();
  assert.equal(await database.get("setting", "problem"), "");
  assert.equal((await client.jobs()).length, 1);
});

test("a randomness server with other keys than the job names gets nothing", async () => {
  const programs = new Programs();
  const job = programs.job({}, { randomness_key: new Programs().job({}).randomness_key });
  const { database, client } = await member(programs, "query");
  await client.refresh();
  await agree(client, job);
  await client.work();
  assert.equal((await database.get("run", job.id))?.trouble, "epoch_keys");
  assert.ok(programs.asked.every(({ url }) => !url.includes("/evaluate/")));
});

test("more tokens than the server has left are not asked for", async () => {
  const programs = new Programs();
  const job = programs.job({ per_user: 3 });
  const [laptop, phone] = [await member(programs, "a", "b"), await member(programs, "c", "d", "e")];
  for (const { client } of [laptop, phone]) {
    await client.refresh();
    await agree(client, job);
    await finish(client, programs);
  }
  assert.deepEqual(texts(programs, job, ["a", "b", "c", "d", "e"]), ["a", "b", "c"]);
  await type(laptop.database, 10, "f");
  await assert.rejects(agree(laptop.client, job), /no_tokens/);
});

/** Numbers that look random and follow from a seed: a run that fails can be repeated. */
function drawing(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

test("each request in turn is lost, or its answer is, or the browser ends: all arrives, once", async () => {
  for (const stage of ["/tokens/", "/epochs", "/tokens/7", "/evaluate/", "/reports/"]) {
    for (const fault of ["before", "after", "killed"] as const) {
      const programs = new Programs();
      const job = programs.job({ name: "FT_a", k: 2 });
      const { database, client } = await member(programs, "one", "two", "one");
      await client.refresh();
      await agree(client, job);
      let killed: () => void = () => undefined;
      const ended = new Promise<void>((resolve) => (killed = resolve));
      programs.fault = ({ url }) => {
        if (!url.includes(stage)) return null;
        programs.fault = () => null;
        if (fault === "killed") setImmediate(killed);
        return fault;
      };
      await Promise.race([client.work(), ended]);
      await finish(new Client(database, programs.http, () => programs.clock), programs);
      assert.deepEqual(texts(programs, job, ["one", "two"]), ["one", "one", "two"], `${fault} ${stage}`);
      assert.ok((await outgoing(database, job.id)).every((row) => row.sent !== null), `${fault} ${stage}`);
    }
  }
});

test("lost requests, lost answers, and browsers that end at any request: all arrives, once", async () => {
  for (let seed = 1; seed <= 2; seed++) {
    const draw = drawing(seed);
    const programs = new Programs();
    const job = programs.job({ name: "FT_a", k: 2 }, seed % 2 === 0 ? { secondary_k: 2 } : {});
    const queries = Array.from({ length: 1 + Math.floor(draw() * 70) }, (_, i) => `query ${i % 5}`);
    const { database, client: first } = await member(programs, ...queries);
    await first.refresh();
    assert.equal(await agree(first, job), true);
    const faults: readonly Fault[] = ["before", "after", "killed"];
    let left = 8;
    let killed: () => void = () => undefined;
    programs.fault = () => {
      if (left === 0 || draw() < 0.4) return null;
      left -= 1;
      const fault = faults[Math.floor(draw() * 3)] as Fault;
      if (fault === "killed") setImmediate(() => killed());
      return fault;
    };
    for (let i = 0; i < 100; i++) {
      const ended = new Promise<"killed">((resolve) => (killed = () => resolve("killed")));
      const found = await Promise.race([new Client(database, programs.http, () => programs.clock).work(), ended]);
      if (found === null) break;
      programs.clock += 3_600_000 / 4;
    }
    const expected = queries.toSorted();
    assert.deepEqual(texts(programs, job, queries), expected, `seed ${seed}`);
    assert.equal((await database.get("run", job.id))?.state, "done", `seed ${seed}`);
    assert.ok((await outgoing(database, job.id)).every((row) => row.sent !== null), `seed ${seed}`);
  }
});
