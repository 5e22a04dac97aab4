// The texts: the same keys in both languages, the same blanks to fill in, none missing, none left over.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import german from "../static/_locales/de/messages.json";
import english from "../static/_locales/en/messages.json";

const ROOT = join(import.meta.dirname, "../..");

function sources(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(ts|html)$|manifest\.json$/.test(name))
    .map((name) => readFileSync(join(ROOT, folder, name), "utf8"));
}

const TEXT = [...sources("src"), ...sources("static")].join("\n");
const blanks = (one: { message: string }): string[] => [...one.message.matchAll(/\$\d/g)].map(([blank]) => blank).sort();

test("both languages say the same things", () => {
  assert.deepEqual(Object.keys(german), Object.keys(english));
  const other = german as Record<string, { message: string }>;
  for (const [key, one] of Object.entries(english)) {
    assert.deepEqual(blanks(other[key] as { message: string }), blanks(one), key);
    assert.ok((other[key]?.message ?? "").length > 0, key);
  }
});

test("every text is used", () => {
  // Keys that are put together: of problems, jobs, states and words.
  const begins = ["problem_", "job_title_", "words_", "answer_", "menu_"];
  const unused = Object.keys(english).filter((key) => !begins.some((start) => key.startsWith(start)) && !TEXT.includes(key));
  assert.deepEqual(unused, []);
});

test("every key that the code names exists", () => {
  const named = [...TEXT.matchAll(/(?:\bt\(|getMessage\(|data-text=)"([a-z_]+)"|__MSG_([a-z_]+)__/g)].map(([, key, other]) => key ?? (other as string));
  assert.ok(named.length > 50);
  const missing = named.filter((key) => !(key in english));
  assert.deepEqual(missing, []);
});

test("problems that are thrown have words", () => {
  const thrown = [...TEXT.matchAll(/(?:JobError|HttpError|Error)\("([a-z_]+)"\)/g)].map(([, name]) => name as string);
  const verified = ["job_forged", "epochs_forged", "not_begun"];
  for (const name of [...thrown, ...verified]) assert.ok(`problem_${name}` in english, name);
  assert.ok(thrown.length >= 8);
});
