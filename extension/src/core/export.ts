// The log as a file: CSV with the columns that `searchveil inspect` knows. Of an own log there is one user.

import type { Search } from "./artifacts.js";

export function toCsv(searches: readonly Search[]): string {
  const rows = searches.map(({ query, time, url, rank }) => [
    "me",
    // A line end inside a query would be a row of its own for many programs.
    query.replace(/[\r\n]+/g, " "),
    time === null ? "" : new Date(time * 1000).toISOString(),
    url ?? "",
    rank === null ? "" : String(rank),
  ]);
  return [["user", "query", "time", "url", "rank"], ...rows].map((row) => `${row.map(quoted).join(",")}\n`).join("");
}

function quoted(value: string): string {
  return /[",\s]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}
