// Whom the worker believes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { claim, request, type Sender } from "../src/background/trust.js";

const OWN = "abcdefghijklmnop";
const HOME = `chrome-extension://${OWN}/`;
const PAGE = "https://www.google.de/search?q=red+panda&start=10";
const TAB: Sender = { id: OWN, url: PAGE, frameId: 0, tab: { incognito: false }, documentLifecycle: "active" };
const SEARCH = { type: "search", site: "Google", query: "red panda", url: null, rank: null };
const CLICK = { type: "click", site: "Google", query: "red panda", url: "https://a.example/", rank: 11 };

test("a search page is believed about itself", () => {
  assert.deepEqual(claim(SEARCH, TAB, OWN), SEARCH);
  assert.deepEqual(claim({ ...CLICK, more: "left out" }, TAB, OWN), CLICK);
  assert.deepEqual(claim({ ...CLICK, rank: null }, { ...TAB, documentLifecycle: undefined }, OWN), { ...CLICK, rank: null });
  const anew: Sender = { ...TAB, url: "https://www.google.de/search?q=before", tab: { incognito: false, url: PAGE } };
  assert.deepEqual(claim(SEARCH, anew, OWN), SEARCH, "searched anew without being loaded anew");
  const posted = { type: "search", site: "Startpage", query: "red panda", url: null, rank: null };
  assert.deepEqual(claim(posted, { ...TAB, url: "https://www.startpage.com/sp/search" }, OWN), posted);
});

test("and nobody else, nor it about anything else", () => {
  const senders: Record<string, Sender> = {
    "another extension": { ...TAB, id: "ponmlkjihgfedcba" },
    "no extension": { ...TAB, id: undefined },
    "a frame": { ...TAB, frameId: 3 },
    "an unknown frame": { ...TAB, frameId: undefined },
    "no tab": { ...TAB, tab: undefined },
    "a private window": { ...TAB, tab: { incognito: true } },
    "a page that nobody has asked for yet": { ...TAB, documentLifecycle: "prerender" },
    "a page without a rule": { ...TAB, url: "https://evil.example/search?q=red+panda" },
    "a page that looks like one": { ...TAB, url: "https://www.google.de.evil.example/search?q=red+panda" },
    "another search": { ...TAB, url: "https://www.google.de/search?q=something+else" },
    "another site": { ...TAB, url: "https://www.bing.com/search?q=red+panda" },
    "pictures": { ...TAB, url: `${PAGE}&udm=2` },
    "no address": { ...TAB, url: undefined },
    "one of our own pages": { ...TAB, url: `${HOME}log.html` },
  };
  for (const [who, sender] of Object.entries(senders)) assert.equal(claim(SEARCH, sender, OWN), null, who);
  const messages: unknown[] = [
    null,
    "search",
    {},
    { ...SEARCH, query: 1 },
    { ...SEARCH, query: "another" },
    { ...SEARCH, site: "Bing" },
    { ...SEARCH, url: "https://a.example/" },
    { ...CLICK, url: null },
    { ...CLICK, url: "javascript:alert(1)" },
    { ...CLICK, url: "data:text/plain,x" },
    { ...CLICK, url: "no address" },
    { ...CLICK, url: `https://a.example/${"x".repeat(9000)}` },
    { ...CLICK, rank: 0 },
    { ...CLICK, rank: 1.5 },
    { ...CLICK, rank: "1" },
    { type: "agree", job: "x", answer: "always", seen: [] },
  ];
  for (const message of messages) assert.equal(claim(message, TAB, OWN), null, JSON.stringify(message));
});

test("only our own pages ask the worker for anything", () => {
  const own: Sender = { id: OWN, url: `${HOME}jobs.html`, frameId: 0, tab: { incognito: false } };
  assert.deepEqual(request({ type: "work" }, own, OWN, HOME), { type: "work" });
  assert.equal(request({ type: "work" }, TAB, OWN, HOME), null, "a content script");
  assert.equal(request({ type: "work" }, { ...own, id: "ponmlkjihgfedcba" }, OWN, HOME), null, "another extension");
  assert.equal(request({ type: "work" }, { ...own, url: `https://a.example/?${HOME}` }, OWN, HOME), null);
  assert.equal(request({ type: "work" }, { ...own, tab: { incognito: true } }, OWN, HOME), null);
  assert.equal(request("work", own, OWN, HOME), null);
});
