// Search pages by their addresses; where results lead.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { before, type Rule, RULES, searchPage, target } from "../src/capture/rules.js";

type Boxed = (selector: string) => string;

const nothing: Boxed = () => "";
const rule = (name: string): Rule => RULES.find((one) => one.name === name) as Rule;

function found(address: string, boxed: Boxed = nothing): [string, string] | null {
  const page = searchPage(address, boxed);
  return page === null ? null : [page.rule.name, page.query];
}

test("each site has a rule", () => {
  const pages: Record<string, string> = {
    "https://www.google.com/search?hl=de&q=two+words&sca=1": "Google",
    "https://www.google.co.uk/search?q=two%20words": "Google",
    "https://www.bing.com/search?q=two+words&form=x": "Bing",
    "https://duckduckgo.com/?t=h_&q=two+words&ia=web": "DuckDuckGo",
    "https://search.brave.com/search?q=two+words": "Brave",
    "https://www.startpage.com/sp/search?query=two+words": "Startpage",
    "https://de.wikipedia.org/w/index.php?search=two+words&title=Spezial": "Wikipedia",
    "https://openlibrary.org/search?q=two+words": "Open Library",
  };
  for (const [address, name] of Object.entries(pages)) assert.deepEqual(found(address), [name, "two words"]);
  assert.deepEqual(new Set(Object.values(pages)), new Set(RULES.map((one) => one.name)));
});

test("nothing on other pages", () => {
  for (const address of [
    "https://www.google.com/?q=x",
    "https://www.google.com/search?query=x",
    "https://www.google.com/search?q=%20%20",
    "https://www.google.com.evil.example/search?q=x",
    "https://evilwikipedia.org/w/index.php?search=x",
    "https://wikipedia.org.example/w/index.php?search=x",
    "http://www.google.com/search?q=x",
    "https://www.google.com:8443/search?q=x",
    "https://mail.google.com/search?q=x",
    "https://duckduckgo.com/settings?q=x",
    "https://example.org/search?q=x",
  ]) {
    assert.equal(found(address), null, address);
  }
});

test("a query that was posted is read from its box", () => {
  const boxed: Boxed = (selector) => (selector === "input[name=query]" ? " posted " : "");
  assert.deepEqual(found("https://www.startpage.com/sp/search", boxed), ["Startpage", "posted"]);
  assert.equal(found("https://www.bing.com/search", () => "never read"), null);
});

test("where results lead", () => {
  const page = "https://www.google.com/search?q=x";
  assert.equal(target(rule("Google"), "https://a.example/b?c=1#:~:text=d", page), "https://a.example/b?c=1");
  assert.equal(target(rule("Google"), "/url?sa=t&url=https%3A%2F%2Fa.example%2F", page), "https://a.example/");
  assert.equal(target(rule("Google"), "/url?q=https://a.example/x", page), "https://a.example/x");
  assert.equal(target(rule("Google"), "https://other.example/url?q=https://a.example/", page), "https://other.example/url?q=https://a.example/");
  assert.equal(target(rule("Google"), "javascript:void(0)", page), null);
  assert.equal(target(rule("Google"), "https://[", page), null);
  const packed = Buffer.from("https://ü.example/?ä").toString("base64url");
  assert.equal(target(rule("Bing"), `/ck/a?!&&u=a1${packed}&ntb=1`, "https://www.bing.com/search?q=x"), "https://xn--tda.example/?%C3%A4");
  assert.equal(target(rule("Bing"), "/ck/a?u=b2xx", "https://www.bing.com/search?q=x"), "https://www.bing.com/ck/a?u=b2xx");
  const led = "//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2Fb";
  assert.equal(target(rule("DuckDuckGo"), led, "https://html.duckduckgo.com/html/?q=x"), "https://a.example/b");
});

test("results on earlier pages", () => {
  assert.equal(before(rule("Google"), "https://www.google.com/search?q=x"), 0);
  assert.equal(before(rule("Google"), "https://www.google.com/search?q=x&start=20"), 20);
  assert.equal(before(rule("Bing"), "https://www.bing.com/search?q=x&first=11"), 10);
  assert.equal(before(rule("Startpage"), "https://www.startpage.com/sp/search?query=x&page=3"), 20);
  assert.equal(before(rule("Google"), "https://www.google.com/search?q=x&start=ten"), null);
  assert.equal(before(rule("DuckDuckGo"), "https://duckduckgo.com/?q=x"), 0);
});

test("the manifest runs the extension on pages with a rule alone, and never in private windows", () => {
  const manifest = JSON.parse(readFileSync(join(import.meta.dirname, "../unpacked/manifest.json"), "utf8")) as {
    incognito: string;
    permissions: string[];
    host_permissions?: string[];
    optional_host_permissions?: string[];
    web_accessible_resources?: unknown;
    content_security_policy: { extension_pages: string };
    content_scripts: { matches: string[] }[];
  };
  assert.equal(manifest.incognito, "not_allowed");
  assert.deepEqual(manifest.permissions, ["alarms", "contextMenus", "unlimitedStorage"]);
  assert.equal(manifest.host_permissions ?? manifest.optional_host_permissions ?? manifest.web_accessible_resources, undefined);
  assert.match(manifest.content_security_policy.extension_pages, /^default-src 'none'; script-src 'self'; /);
  const [script] = manifest.content_scripts;
  assert.equal(script?.matches.length, RULES.flatMap((one) => one.templates).length);
  for (const pattern of script?.matches ?? []) assert.match(pattern, /^https:\/\/[^/*]*(\*\.)?[^/*]+\/[^*]*\*$/);
  assert.ok(script?.matches.includes("https://duckduckgo.com/*"));
  assert.ok(script?.matches.includes("https://www.google.com/search?*"));
});
