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
  readonly templates: readonly string[]; // a host may begin with *. for its subdomains, and hold {domain}
  readonly domains?: readonly string[]; // what {domain} stands for
  readonly box?: string; // holds the query of pages that were posted
  readonly wholeHost?: boolean; // other pages of the host become search pages without being loaded anew
  readonly only?: Readonly<Record<string, readonly string[]>>; // values of parameters that web pages are searched with;
  readonly except?: Readonly<Record<string, readonly string[]>>; // and others: images, news, a chat are not recorded
  readonly results: string;
  readonly redirects?: readonly Redirect[];
  readonly never?: readonly string[]; // paths of advertisements, and of redirects that do not say where they lead
  readonly offset?: Offset;
}

export const RULES: readonly Rule[] = rules.sites;

export interface SearchPage {
  readonly rule: Rule;
  readonly query: string;
  readonly posted: boolean; // the address does not say what was searched
}

interface Template {
  readonly host: string;
  readonly path: string;
  readonly parameter: string;
}

/** The templates of a rule, one for each of its domains. */
export function templatesOf({ templates, domains }: Pick<Rule, "templates" | "domains">): string[] {
  return templates.flatMap((one) => (domains === undefined ? [one] : domains.map((domain) => one.replace("{domain}", domain))));
}

function parse(template: string): Template {
  const found = /^https:\/\/([^/]+)(\/[^?]*)\?(?:.*&)?([^=&]+)=\{searchTerms\}/.exec(template);
  if (found === null) throw new Error(`${template} is no template of a search page`);
  const [, host, path, parameter] = found as unknown as [string, string, string, string];
  return { host, path, parameter };
}

const TEMPLATES: ReadonlyMap<Rule, readonly Template[]> = new Map(RULES.map((rule) => [rule, templatesOf(rule).map(parse)]));

function onHost({ host }: Template, url: URL): boolean {
  return host.startsWith("*.") ? url.host.endsWith(host.slice(1)) : url.host === host;
}

function searchesTheWeb({ only = {}, except = {} }: Rule, url: URL): boolean {
  const given = (name: string): readonly string[] => url.searchParams.getAll(name);
  return (
    Object.entries(only).every(([name, values]) => given(name).every((value) => values.includes(value))) &&
    Object.entries(except).every(([name, values]) => !given(name).some((value) => values.includes(value)))
  );
}

/** The search on a page, if there is a rule for it and something was searched. `boxed` reads a query that was posted. */
export function searchPage(address: string, boxed: (selector: string) => string): SearchPage | null {
  if (!URL.canParse(address)) return null;
  const url = new URL(address);
  for (const [rule, templates] of TEMPLATES) {
    const template = templates.find((one) => url.protocol === "https:" && onHost(one, url) && url.pathname === one.path);
    if (template !== undefined) {
      const given = url.searchParams.get(template.parameter);
      const query = (given ?? (rule.box ? boxed(rule.box) : "")).trim();
      return query === "" || !searchesTheWeb(rule, url) ? null : { rule, query, posted: given === null };
    }
  }
  return null;
}

/**
 * Where a result leads, past the site's own redirects and without the place inside the page. Null where that cannot be
 * told, for advertisements, and for links to a further search.
 */
export function target(rule: Rule, href: string, page: string): string | null {
  if (!URL.canParse(href, page)) return null;
  let url: URL | null = new URL(href, page);
  const own = (one: URL): boolean => sameSite(one.hostname, new URL(page).hostname) || (TEMPLATES.get(rule) ?? []).some((it) => onHost(it, one));
  const redirects = (rule.redirects ?? []).filter(({ path }) => own(url as URL) && (url as URL).pathname === path);
  if (redirects.length > 0) url = redirects.map((one) => real(one, url as URL, page)).find((found) => found !== null) ?? null;
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) return null;
  if (rule.never?.includes(url.pathname)) return null;
  if (searchPage(url.href, () => "any")?.rule === rule) return null;
  url.hash = "";
  return url.href;
}

/** A host, or one that it is a part of: redirects may stand on either. */
function sameSite(one: string, other: string): boolean {
  return one === other || one.endsWith(`.${other}`) || other.endsWith(`.${one}`);
}

function real({ parameter, base64After }: Redirect, url: URL, page: string): URL | null {
  const held = url.searchParams.get(parameter);
  const found = held === null || base64After === undefined ? held : unpacked(held, base64After);
  return found !== null && URL.canParse(found, page) ? new URL(found, page) : null;
}

function unpacked(held: string, before: string): string | null {
  if (!held.startsWith(before)) return null;
  try {
    const binary = atob(held.slice(before.length).replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(binary, (character) => character.charCodeAt(0)));
  } catch {
    return null;
  }
}

/** How many results stand on earlier pages; null where the address does not say. */
export function before({ rule, posted }: SearchPage, address: string): number | null {
  if (rule.offset === undefined) return posted ? null : 0;
  const found = new URL(address).searchParams.get(rule.offset.parameter);
  if (found === null || found === "") return posted ? null : 0;
  const steps = Number(found) - rule.offset.from;
  return Number.isInteger(steps) && steps >= 0 ? steps * rule.offset.each : null;
}
