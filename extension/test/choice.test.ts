// Normal forms, artifacts, coins, personal patterns and jobs are those of the Python client.

import assert from "node:assert/strict";
import { test } from "node:test";
import { addressLooksPersonal, looksPersonal } from "../src/core/personal.js";
import { beyond, candidates, further, sends, usable } from "../src/core/choice.js";
import { unhex } from "../src/core/bytes.js";
import { inEnglish, type Job, JobError, jobOf, readJob, wordsOf } from "../src/core/jobs.js";
import { normal } from "../src/core/normal.js";
import { CLIENT } from "./vectors.js";

test("normal forms", () => {
  for (const [text, expected] of CLIENT.normal) assert.equal(normal(text), expected, JSON.stringify(text));
  assert.equal(normal("a\ud800b"), "a\ufffdb"); // half a character has no bytes
});

test("personal patterns", () => {
  for (const [text, expected] of CLIENT.personal) assert.equal(looksPersonal(text), expected, JSON.stringify(text));
  assert.equal(addressLooksPersonal("https://shop.example/?mail=jane%40roe.example.org"), true);
  assert.equal(addressLooksPersonal("https://shop.example/%E0%A4%A?a=4111111111111111"), true);
  assert.equal(addressLooksPersonal("https://en.wikipedia.org/wiki/Jaguar"), false);
});

test("artifacts and coins", () => {
  assert.ok(CLIENT.taken.length >= 32);
  for (const { text, artifacts, sent, too_long } of CLIENT.taken) {
    const job = jobOf(text) as Job;
    const found = candidates(job, CLIENT.log);
    assert.deepEqual(found, artifacts, `${job.artifact} under ${job.policy.name}`);
    assert.equal(usable(job, CLIENT.log).tooLong, too_long);
    assert.deepEqual(found.map((one) => sends(job, unhex(CLIENT.user), one.text)), sent);
  }
});

test("jobs of every policy are read, with words that say what their numbers say", () => {
  for (const { document, id } of CLIENT.jobs) {
    const job = readJob(document, unhex(CLIENT.signer));
    assert.equal(job.id, id);
    assert.deepEqual(wordsOf(job, inEnglish), (JSON.parse(job.text) as { words: unknown }).words);
  }
});

for (const [problem, documents] of Object.entries(CLIENT.broken)) {
  test(`refused: ${problem}`, () => {
    for (const document of documents) {
      const refused = (error: unknown): boolean => error instanceof JobError && error.message === problem;
      assert.throws(() => readJob(document, unhex(CLIENT.signer)), refused, document);
    }
  });
}

test("what is no document at all is forged", () => {
  for (const document of ["", "null", "[]", 7, null, { job: 1 }, { job: "{}", signature: "zz" }]) {
    assert.throws(() => readJob(document, unhex(CLIENT.signer)), /job_forged/);
  }
});

const [SIMPLE, INSTANCES] = ["FT_u", "FT_a"].map((name) => {
  const text = CLIENT.taken.map((one) => jobOf(one.text) as Job).find((job) => job.policy.name === name && job.artifact === "query" && !job.recent);
  return text as Job;
}) as [Job, Job];

function asked(...queries: readonly string[]): { query: string; time: number; url: null; rank: null }[] {
  return queries.map((query, i) => ({ query, time: i, url: null, rank: null }));
}

test("a later round takes what was not considered, within the same bound", () => {
  const texts = (job: Job, considered: string[], struck: string[], ...queries: string[]): string[] =>
    further(job, asked(...queries), considered, new Set(struck)).map((one) => one.text);
  assert.deepEqual(texts(SIMPLE, ["a"], [], "a", "b", "a", "c"), ["b", "c"]);
  assert.deepEqual(texts(INSTANCES, ["a"], [], "a", "b", "a"), ["b", "a"]);
  assert.deepEqual(texts(INSTANCES, ["a"], ["a"], "a", "b", "a"), ["b"]);
  const bounded: Job = { ...SIMPLE, policy: { ...SIMPLE.policy, per_user: 3 } };
  assert.deepEqual(texts(bounded, ["a", ""], [], "a", "b", "c"), ["b"]);
  assert.deepEqual(texts(bounded, ["a", "", "x"], [], "b"), []);
  assert.equal(beyond(bounded, asked("a", "b", "c", "d", "e"), ["a", ""], new Set(["d"])), 2);
  assert.equal(beyond(bounded, asked("a", "b"), ["a"], new Set()), 0);
});
