// What a job takes out of a person's own log: src/searchveil/crowd/artifacts.py.

import { utf8 } from "./bytes.js";
import { normal, words } from "./normal.js";

export const BETWEEN = "\t"; // the fields of an artifact; a normal form never holds it
export const LONGEST = 254; // bytes of an artifact in UTF-8: reports have a constant size
export const GAP_MINUTES = 30;

/** A row of one's own log. Rows of one submission with several clicks share query and time (seconds since 1970). */
export interface Search {
  readonly query: string;
  readonly time: number | null;
  readonly url: string | null;
  readonly rank: number | null;
}

/** One instance: the primary field, in normal form, and the secondary one, as it was typed. */
export interface Artifact {
  readonly text: string;
  readonly typed: string;
}

type Extract = (searches: readonly Search[], domains: boolean) => Artifact[];

export interface Kind {
  readonly columns: readonly string[];
  readonly extract: Extract;
}

/** A search with several clicks is one; rows of unknown time count once a query. */
function queries(searches: readonly Search[]): Artifact[] {
  const seen = new Set<string>();
  const found: Artifact[] = [];
  for (const { query, time } of searches) {
    const key = JSON.stringify([query, time]);
    if (!seen.has(key)) {
      seen.add(key);
      found.push({ text: normal(query), typed: query });
    }
  }
  return found;
}

/** Strings in the order of their code points, as Python compares them. */
function compare(one: string, other: string): number {
  const [a, b] = [Array.from(one), Array.from(other)];
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const difference = (a[i]?.codePointAt(0) ?? 0) - (b[i]?.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

function reformulations(searches: readonly Search[]): Artifact[] {
  const timed = searches
    .filter((one): one is Search & { time: number } => one.time !== null)
    .map((one) => ({ ...one, normal: normal(one.query) }))
    .sort((one, other) => one.time - other.time || compare(one.normal, other.normal));
  const found: Artifact[] = [];
  for (const [i, then] of timed.entries()) {
    const first = timed[i - 1];
    if (first === undefined || first.normal === then.normal || !first.normal || !then.normal) continue;
    if (then.time - first.time <= 60 * GAP_MINUTES) {
      found.push({
        text: first.normal + BETWEEN + then.normal,
        typed: first.query.replaceAll(BETWEEN, " ") + BETWEEN + then.query,
      });
    }
  }
  return found;
}

const DOMAIN = /^(?:(?:[A-Za-z][A-Za-z0-9+.-]*:)?\/\/)?(?:[^/?#]*@)?(\[[^\]/?#]*\]|[^:/?#]*)/;

/** The host that an address names, without user, password and port. */
export function domain(url: string): string {
  return (DOMAIN.exec(url)?.[1] ?? "").replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

interface Click {
  readonly query: string;
  readonly url: string;
  readonly search: Search;
}

function clicks(searches: readonly Search[], domains: boolean): Click[] {
  return searches.flatMap((search) => {
    if (!search.url) return [];
    const query = normal(search.query);
    const whole = words(search.url).join(" ");
    const url = domains ? domain(whole) : whole;
    return query && url ? [{ query, url, search }] : [];
  });
}

function queryUrls(searches: readonly Search[], domains: boolean): Artifact[] {
  return clicks(searches, domains).map(({ query, url, search }) => ({ text: query + BETWEEN + url, typed: search.query }));
}

/** One artifact per query, url and feature: the place of the result, and how often this user clicked it. */
function features(searches: readonly Search[], domains: boolean): Artifact[] {
  const clicked = clicks(searches, domains);
  const times = new Map<string, { query: string; url: string; number: number }>();
  for (const { query, url } of clicked) {
    const known = times.get(query + BETWEEN + url);
    if (known) known.number += 1;
    else times.set(query + BETWEEN + url, { query, url, number: 1 });
  }
  const found: Artifact[] = [];
  for (const { query, url, search } of clicked) {
    if (search.rank !== null) {
      const place = search.rank <= 1 ? "1" : search.rank <= 3 ? "2-3" : search.rank <= 10 ? "4-10" : "11+";
      found.push({ text: [query, url, "rank", place].join(BETWEEN), typed: search.query });
    }
  }
  for (const { query, url, number } of times.values()) {
    const often = number <= 1 ? "1" : number <= 4 ? "2-4" : "5+";
    found.push({ text: [query, url, "clicks", often].join(BETWEEN), typed: query });
  }
  return found;
}

export const KINDS: Readonly<Record<string, Kind>> = {
  query: { columns: ["query"], extract: queries },
  reformulation: { columns: ["query", "next"], extract: reformulations },
  "query-url": { columns: ["query", "url"], extract: queryUrls },
  ltr: { columns: ["query", "url", "feature", "value"], extract: features },
};

/** Whether it can be sent: neither blank nor longer than a report has room for. */
export function fits(artifact: Artifact): boolean {
  return artifact.text !== "" && utf8(artifact.text).length <= LONGEST;
}

/** Each primary text once, as it was first typed. */
export function distinct(artifacts: readonly Artifact[]): Artifact[] {
  const first = new Map<string, Artifact>();
  for (const artifact of artifacts) if (!first.has(artifact.text)) first.set(artifact.text, artifact);
  return [...first.values()];
}
