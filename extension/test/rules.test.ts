// Search pages by their addresses; where results lead.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { before, type Rule, RULES, searchPage, type SearchPage, target, templatesOf } from "../src/capture/rules.js";

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
    "https://www.google.com.tr/search?q=two+words&udm=14": "Google",
    "https://www.google.cat/search?q=two+words&tbm=#section": "Google",
    "https://cn.bing.com/search?q=two+words": "Bing",
    "https://lite.duckduckgo.com/lite/?q=two+words": "DuckDuckGo",
    "https://noai.duckduckgo.com/?q=two+words&ia=definition": "DuckDuckGo",
    "https://eu.startpage.com/do/dsearch?query=two+words&cat=web": "Startpage",
    "https://fr.m.wikipedia.org/wiki/Special:Search?search=two+words": "Wikipedia",
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
    "https://www.google.evil/search?q=x",
    // Images, news, maps, a chat.
    "https://www.google.com/search?q=x&udm=2",
    "https://www.google.com/search?q=x&udm=50",
    "https://www.google.com/search?q=x&tbm=nws",
    "https://www.google.com/search?q=x&udm=14&udm=2",
    "https://www.bing.com/images/search?q=x",
    "https://www.bing.com/news/search?q=x",
    "https://duckduckgo.com/?q=x&iax=images&ia=images",
    "https://duckduckgo.com/?q=x&iar=news&ia=news",
    "https://duckduckgo.com/?q=x&ia=web&iaxm=maps",
    "https://duckduckgo.com/?q=x&ia=chat",
    "https://search.brave.com/images?q=x",
    "https://www.startpage.com/sp/search?query=x&cat=images",
    "not an address",
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
  const bing = "https://www.bing.com/search?q=x";
  for (const opaque of ["/ck/a?u=b2xx", "/ck/a?u=a1!", "/ck/a?u=a1_w", "/ck/a", "/aclick?ld=x"]) assert.equal(target(rule("Bing"), opaque, bing), null, opaque);
  assert.equal(target(rule("Google"), "https://www.google.com/url?q=https://a.example/", "https://www.google.fr/search?q=x"), "https://a.example/");
  for (const none of ["/aclk?sa=l&adurl=https://a.example/", "https://www.googleadservices.com/pagead/aclk?x", "/goto?url=CAES", "/search?q=related", "https://www.google.de/search?q=x&udm=14"]) {
    assert.equal(target(rule("Google"), none, page), null, none);
  }
  const led = "//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2Fb";
  assert.equal(target(rule("DuckDuckGo"), led, "https://html.duckduckgo.com/html/?q=x"), "https://a.example/b");
  const paid = `//duckduckgo.com/l/?uddg=${encodeURIComponent("https://duckduckgo.com/y.js?ad_domain=a.example")}`;
  assert.equal(target(rule("DuckDuckGo"), paid, "https://html.duckduckgo.com/html/?q=x"), null);
  assert.equal(target(rule("Wikipedia"), "/wiki/Panda#Diet", "https://en.wikipedia.org/w/index.php?search=x"), "https://en.wikipedia.org/wiki/Panda");
});

test("results on earlier pages", () => {
  const earlier = (address: string): number | null => before(searchPage(address, () => "posted") as SearchPage, address);
  const expected: Record<string, number | null> = {
    "https://www.google.com/search?q=x": 0,
    "https://www.google.com/search?q=x&start=20": 20,
    "https://www.google.com/search?q=x&start=ten": null,
    "https://www.google.com/search?q=x&start=-10": null,
    "https://www.bing.com/search?q=x&first=11": 10,
    "https://www.bing.com/search?q=x&first=": 0,
    "https://www.startpage.com/sp/search?query=x&page=3": 20,
    "https://www.startpage.com/sp/search": null,
    "https://search.brave.com/search?q=x&offset=2": 40,
    "https://duckduckgo.com/?q=x": 0,
    "https://html.duckduckgo.com/html/?q=x&s=30&dc=31": 30,
    "https://html.duckduckgo.com/html/": null,
    "https://en.wikipedia.org/w/index.php?search=x&limit=20&offset=40": 40,
  };
  for (const [address, number] of Object.entries(expected)) assert.equal(earlier(address), number, address);
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
  assert.equal(script?.matches.length, RULES.flatMap(templatesOf).length);
  assert.equal(new Set(script?.matches).size, script?.matches.length);
  for (const pattern of script?.matches ?? []) assert.match(pattern, /^https:\/\/[^/*]*(\*\.)?[^/*]+\/[^*]*\*$/);
  assert.ok(script?.matches.includes("https://duckduckgo.com/*"));
  assert.ok(script?.matches.includes("https://www.google.com/search?*"));
  assert.ok(script?.matches.includes("https://www.google.co.nz/search?*"));
  assert.ok(script?.matches.includes("https://search.brave.com/*"), "its pages become search pages without being loaded");
});
