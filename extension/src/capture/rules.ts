// Search pages as data. A page's address is an OpenSearch template, so that any OpenSearch site is one more entry of
// rules.json; only the place of its results has to be said besides.

import rules from "./rules.json";

interface Redirect {
  readonly path: string;
  readonly parameter: string; // holds the real address
  readonly base64After?: string; // as base64url behind these letters
}

interface Offset {
  readonly parameter: string;
  readonly from: number; // its value on the first page
  readonly each: number; // results for each step
}

export interface Rule {
  readonly name: string;
  readonly templates: readonly string[]; // a host may begin with *. for its subdomains
  readonly box?: string; // holds the query of pages that were posted
  readonly results: string;
  readonly redirects?: readonly Redirect[];
  readonly offset?: Offset;
}

export const RULES: readonly Rule[] = rules.sites;

export interface SearchPage {
  readonly rule: Rule;
  readonly query: string;
}

interface Template {
  readonly host: string;
  readonly path: string;
  readonly parameter: string;
}

function parse(template: string): Template {
  const found = /^https:\/\/([^/]+)(\/[^?]*)\?(?:.*&)?([^=&]+)=\{searchTerms\}/.exec(template);
  if (found === null) throw new Error(`${template} is no template of a search page`);
  const [, host, path, parameter] = found as unknown as [string, string, string, string];
  return { host, path, parameter };
}

function matches({ host, path }: Template, url: URL): boolean {
  const fits = host.startsWith("*.") ? url.host.endsWith(host.slice(1)) : url.host === host;
  return url.protocol === "https:" && fits && url.pathname === path;
}

/** The search on a page, if there is a rule for it and something was searched. `boxed` reads a query that was posted. */
export function searchPage(address: string, boxed: (selector: string) => string): SearchPage | null {
  const url = new URL(address);
  for (const rule of RULES) {
    const template = rule.templates.map(parse).find((one) => matches(one, url));
    if (template !== undefined) {
      const query = (url.searchParams.get(template.parameter) ?? (rule.box ? boxed(rule.box) : "")).trim();
      return query === "" ? null : { rule, query };
    }
  }
  return null;
}

/** Where a result leads, past the site's own redirects and without the place inside the page. */
export function target(rule: Rule, href: string, page: string): string | null {
  if (!URL.canParse(href, page)) return null;
  let url = new URL(href, page);
  for (const { path, parameter, base64After } of rule.redirects ?? []) {
    const held = url.pathname === path && sameSite(url.hostname, new URL(page).hostname) ? url.searchParams.get(parameter) : null;
    const real = held === null ? null : base64After === undefined ? held : unpacked(held, base64After);
    if (real !== null && URL.canParse(real, page)) url = new URL(real, page);
  }
  url.hash = "";
  return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
}

/** A host, or one that it is a part of: redirects may stand on either. */
function sameSite(one: string, other: string): boolean {
  return one === other || one.endsWith(`.${other}`) || other.endsWith(`.${one}`);
}

function unpacked(held: string, before: string): string | null {
  if (!held.startsWith(before)) return null;
  try {
    const binary = atob(held.slice(before.length).replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder().decode(Uint8Array.from(binary, (character) => character.charCodeAt(0)));
  } catch {
    return null;
  }
}

/** How many results stand on earlier pages; null where the address does not say. */
export function before(rule: Rule, address: string): number | null {
  const found = rule.offset === undefined ? null : new URL(address).searchParams.get(rule.offset.parameter);
  if (rule.offset === undefined || found === null) return 0;
  const steps = Number(found) - rule.offset.from;
  return Number.isInteger(steps) && steps >= 0 ? steps * rule.offset.each : null;
}
