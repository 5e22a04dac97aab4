// What becomes a row of the log, how long rows stay, and the file that they are exported to.

import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { test } from "node:test";
import { toCsv } from "../src/core/export.js";
import { forgetOld, record, type Seen } from "../src/core/record.js";
import { change, type Database, dayOf, deleteWhere, entries, forgetEverything, openStore, set, settings } from "../src/core/store.js";

const NOW = 1_800_000_000;
const HIT = "https://a.example/";
let stores = 0;

function store(): Promise<Database> {
  return openStore(`record-${stores++}`);
}

function search(query: string, site = "Google"): Seen {
  return { type: "search", site, query, url: null, rank: null };
}

function click(query: string, url: string, rank: number | null, site = "Google"): Seen {
  return { type: "click", site, query, url, rank };
}

/** Rows as [query, seconds since the beginning, address, place]. */
async function rows(database: Database): Promise<unknown[]> {
  return (await entries(database)).map(({ query, time, url, rank }) => [query, time - NOW, url, rank]);
}

test("a search, its clicks, and the next search", async () => {
  const database = await store();
  assert.equal(await record(database, search("Jaguar"), NOW), true);
  assert.equal(await record(database, search("Jaguar"), NOW + 5), false, "loaded again");
  await record(database, click("Jaguar", HIT, 2), NOW + 10);
  await record(database, click("Jaguar", "https://b.example/", 3), NOW + 20);
  await record(database, search("jaguar car"), NOW + 30);
  await record(database, click("Jaguar", "https://c.example/", 4), NOW + 40);
  await record(database, search("Jaguar"), NOW + 50);
  await record(database, search("Jaguar", "Bing"), NOW + 60);
  assert.deepEqual(await rows(database), [
    ["Jaguar", 0, HIT, 2],
    ["Jaguar", 0, "https://b.example/", 3],
    ["Jaguar", 0, "https://c.example/", 4],
    ["jaguar car", 30, null, null],
    ["Jaguar", 50, null, null],
    ["Jaguar", 60, null, null],
  ]);
});

test("the same query half an hour later is another search", async () => {
  const database = await store();
  await record(database, search("tea"), NOW);
  await record(database, search("tea"), NOW + 1800);
  await record(database, search("tea"), NOW + 1801);
  assert.deepEqual((await rows(database)).length, 2);
  await record(database, click("unknown", HIT, null), NOW + 5);
  assert.deepEqual((await rows(database))[1], ["unknown", 5, HIT, null]);
});

test("nothing while paused, nothing blank, nothing personal unless allowed", async () => {
  const database = await store();
  assert.equal(await record(database, search(" \u3000 "), NOW), false);
  const personal = [search("jane@roe.example.org"), search("call (555) 123-4567"), search("4111 1111 1111 1111"), search("ｊａｎｅ＠ｒｏｅ．ｏｒｇ")];
  for (const one of personal) assert.equal(await record(database, one, NOW), false, one.query);
  assert.equal(await record(database, click("mail", "https://a.example/?to=jane%40roe.example", 1), NOW), false);
  await set(database, "paused", true);
  assert.equal(await record(database, search("tea"), NOW), false);
  assert.deepEqual(await rows(database), []);
  await set(database, "paused", false);
  await set(database, "allowPersonal", true);
  for (const [i, one] of personal.entries()) assert.equal(await record(database, one, NOW + i), true);
  assert.equal((await rows(database)).length, personal.length);
});

test("rows stay as long as their owner wants", async () => {
  const database = await store();
  for (const days of [0, 89, 91, 400]) await record(database, search(`${days} days old`), NOW - days * 86_400);
  assert.equal(await forgetOld(database, NOW), 2);
  await set(database, "keepDays", 0);
  assert.equal(await forgetOld(database, NOW + 1e9), 0);
  assert.deepEqual((await rows(database)).map((row) => (row as string[])[0]), ["89 days old", "0 days old"]);
  assert.equal(await deleteWhere(database, (entry) => dayOf(entry.time) === dayOf(NOW)), 1);
  await forgetEverything(database);
  assert.deepEqual(await rows(database), []);
  assert.equal((await settings(database)).keepDays, 90);
});

test("a change that fails changes nothing", async () => {
  const database = await store();
  const broken = change(database, async (tx) => {
    await tx.objectStore("setting").put(1, "half");
    throw new Error("in between");
  });
  await assert.rejects(broken, /in between/);
  assert.equal(await database.get("setting", "half"), undefined);
});

test("the exported file", () => {
  const row = { query: 'say "hi", \nyou', time: 1.5, url: HIT, rank: 1 };
  assert.equal(
    toCsv([row, { query: "tea", time: null, url: null, rank: null }]),
    'user,query,time,url,rank\nme,"say ""hi"",  you",1970-01-01T00:00:01.500Z,https://a.example/,1\nme,tea,,,\n',
  );
});
