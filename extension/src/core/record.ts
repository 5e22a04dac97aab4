// What a search page has told becomes rows of the log.

import { normal } from "./normal.js";
import { GAP_MINUTES } from "./artifacts.js";
import { addressLooksPersonal, looksPersonal } from "./personal.js";
import { type Database, deleteWhere, type Entry, settings } from "./store.js";

export interface Seen {
  readonly type: "search" | "click";
  readonly site: string;
  readonly query: string;
  readonly url: string | null;
  readonly rank: number | null;
}

/** Whether a row was written. Nothing is while paused, and nothing personal unless that is allowed. */
export async function record(database: Database, seen: Seen, now: number): Promise<boolean> {
  const { paused, allowPersonal } = await settings(database);
  if (paused || normal(seen.query) === "") return false;
  if (!allowPersonal && looksPersonal(seen.query)) return false;
  if (seen.type === "click" && (seen.url === null || (!allowPersonal && addressLooksPersonal(seen.url)))) return false;
  const tx = database.transaction("search", "readwrite", { durability: "strict" });
  const latest = ((await tx.store.index("time").openCursor(null, "prev"))?.value ?? null) as Entry | null;
  const same = await sameSearch(tx.store.index("site"), seen, now, latest);
  let wrote = true;
  if (seen.type === "search") {
    if (same === null) await tx.store.add({ query: seen.query, time: now, url: null, rank: null, site: seen.site });
    else wrote = false;
  } else if (same !== null && same.url === null) {
    await tx.store.put({ ...same, url: seen.url, rank: seen.rank });
  } else {
    // A further click of the same search is a row with the same query and time.
    const { query, time } = same ?? { query: seen.query, time: now };
    await tx.store.add({ query, time, url: seen.url, rank: seen.rank, site: seen.site });
  }
  await tx.done;
  return wrote;
}

interface Rows {
  openCursor(query: IDBKeyRange, direction: "prev"): Promise<{ value: unknown; continue(): Promise<unknown> } | null>;
}

/**
 * The row of the search that a page belongs to. For a page that is looked at again (reloaded, the next one, come back
 * to) that is the last search of all; a click may also come from an older page, which is still open.
 */
async function sameSearch(rows: Rows, seen: Seen, now: number, latest: Entry | null): Promise<Entry | null> {
  const is = (entry: Entry): boolean => entry.query === seen.query && entry.site === seen.site && now - entry.time <= 60 * GAP_MINUTES;
  if (seen.type === "search") return latest !== null && is(latest) ? latest : null;
  let found: Entry | null = null;
  let cursor = await rows.openCursor(IDBKeyRange.only(seen.site), "prev");
  for (let looked = 0; cursor !== null && looked < 200; looked++) {
    const entry = cursor.value as Entry;
    if (is(entry) && (found === null || entry.time > found.time || (entry.time === found.time && entry.url === null))) found = entry;
    cursor = (await cursor.continue()) as typeof cursor;
  }
  return found;
}

/** Delete what is older than its owner wants to keep. */
export async function forgetOld(database: Database, now: number): Promise<number> {
  const { keepDays } = await settings(database);
  return keepDays === 0 ? 0 : deleteWhere(database, (entry) => entry.time < now - keepDays * 24 * 3600);
}
