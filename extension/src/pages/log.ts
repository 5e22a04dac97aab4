// The log: read, filter, delete, export.

import { GAP_MINUTES } from "../core/artifacts.js";
import { normal } from "../core/normal.js";
import { toCsv } from "../core/export.js";
import { dayOf, type Database, deleteWhere, entries, type Entry } from "../core/store.js";
import { RULES } from "../capture/rules.js";
import { ask, button, byId, confirmed, element, inTurn, LANGUAGE, page, say, t } from "./page.js";

const AT_ONCE = 200;
const BARS = 60; // days

const text = byId<HTMLInputElement>("text");
const site = byId<HTMLSelectElement>("site");
const day = byId<HTMLInputElement>("day");
let most = AT_ONCE;

function shown(entry: Entry): boolean {
  const wanted = text.value.trim().toLowerCase();
  const holds = `${entry.query} ${entry.url ?? ""}`.toLowerCase().includes(wanted);
  return holds && (site.value === "" || entry.site === site.value) && (day.value === "" || dayOf(entry.time) === day.value);
}

function dayInWords(name: string, style: "full" | "medium" = "full"): string {
  return new Date(`${name}T12:00`).toLocaleDateString(LANGUAGE, { dateStyle: style });
}

/** Which query each row took the place of, within half an hour. */
function predecessors(all: readonly Entry[]): Map<number, string> {
  const found = new Map<number, string>();
  let before: Entry | null = null;
  for (const entry of all) {
    if (before !== null && normal(before.query) !== normal(entry.query)) {
      if (entry.time - before.time <= 60 * GAP_MINUTES) found.set(entry.id, before.query);
    } else if (before !== null && found.has(before.id) && before.time === entry.time) {
      found.set(entry.id, found.get(before.id) as string);
    }
    before = entry;
  }
  return found;
}

/** The days that are shown, up to the latest search. */
function latestDays(all: readonly Entry[]): string[] {
  const latest = all.at(-1)?.time ?? 0;
  return Array.from({ length: BARS }, (_, i) => {
    const date = new Date(latest * 1000);
    date.setHours(12);
    date.setDate(date.getDate() - (BARS - 1 - i));
    return dayOf(date.getTime() / 1000);
  });
}

function bars(all: readonly Entry[], days: readonly string[], show: () => void): HTMLElement[] {
  const counts = new Map<string, number>();
  for (const { time } of all) counts.set(dayOf(time), (counts.get(dayOf(time)) ?? 0) + 1);
  const highest = Math.max(...days.map((name) => counts.get(name) ?? 0));
  return days.map((name) => {
    const count = counts.get(name) ?? 0;
    if (count === 0) return element("li", { "aria-hidden": "true" });
    const label = t("log_day_count", dayInWords(name), String(count));
    const choose = (): void => {
      day.value = day.value === name ? "" : name;
      show();
    };
    const bar = button("", choose, { "aria-label": label, title: label, "aria-pressed": String(day.value === name) });
    bar.style.height = `${Math.max(6, Math.round((100 * count) / highest))}%`;
    return element("li", {}, bar);
  });
}

function click(entry: Entry): (Node | string)[] {
  if (entry.url === null) return ["–"];
  const place = entry.rank === null ? t("rank_unknown") : t("rank", String(entry.rank));
  return [element("a", { href: entry.url, rel: "noreferrer noopener", target: "_blank" }, entry.url), element("span", { class: "quiet" }, ` ${place}`)];
}

function table(name: string, rows: readonly Entry[], before: ReadonlyMap<number, string>, remove: (goes: (entry: Entry) => boolean) => unknown): HTMLElement {
  const heads = ["column_time", "column_query", "column_click", "column_site", "column_action"];
  const body = rows.map((entry) => {
    const instead = before.get(entry.id);
    const query = [entry.query, ...(instead === undefined ? [] : [element("span", { class: "quiet" }, ` ${t("instead_of", instead)}`)])];
    const time = new Date(entry.time * 1000).toLocaleTimeString(LANGUAGE, { timeStyle: "short" });
    const gone = button(t("delete"), () => remove((one) => one.id === entry.id), { "aria-label": t("delete_one", entry.query) });
    const cells: (Node | string)[][] = [[time], query, click(entry), [entry.site], [gone]];
    return element("tr", {}, ...cells.map((cell, i) => element("td", { "data-label": t(heads[i] as string) }, ...cell)));
  });
  const all = button(t("delete_day"), () => remove((one) => dayOf(one.time) === name), { "aria-label": `${t("delete_day")}: ${dayInWords(name)}` });
  const headings = heads.map((key) => element("th", { scope: "col" }, t(key)));
  return element(
    "section",
    {},
    element("div", { class: "between" }, element("h2", {}, dayInWords(name)), all),
    element("table", {}, element("thead", {}, element("tr", {}, ...headings)), element("tbody", {}, ...body)),
  );
}

const show = inTurn(async (database: Database): Promise<void> => {
  const all = await entries(database);
  const again = (): void => void show(database);
  const remove = async (goes: (entry: Entry) => boolean): Promise<void> => {
    const number = all.filter(goes).length;
    if (number > 1 && !(await confirmed(t("confirm_delete", String(number)), t("delete")))) return;
    const gone = await deleteWhere(database, goes);
    await show(database);
    say(t("deleted", String(gone)));
    await ask({ type: "changed" });
  };
  const sites = [...new Set(all.map((entry) => entry.site))].sort();
  const chosen = site.value;
  site.replaceChildren(element("option", { value: "" }, t("all_sites")), ...sites.map((name) => element("option", { value: name }, name)));
  site.value = sites.includes(chosen) ? chosen : "";
  const found = all.filter(shown).reverse();
  const days = Map.groupBy(found.slice(0, most), (entry: Entry) => dayOf(entry.time));
  const before = predecessors(all);
  const latest = latestDays(all);
  byId("bars").replaceChildren(...bars(all, latest, again));
  byId("first-day").textContent = dayInWords(latest[0] ?? "", "medium");
  byId("last-day").textContent = dayInWords(latest.at(-1) ?? "", "medium");
  byId("histogram").hidden = all.length === 0;
  byId("count").textContent = t("log_count", String(found.length), String(all.length));
  const some = found.length > 0 && found.length < all.length;
  const deletions = [
    ...(some ? [button(t("delete_shown", String(found.length)), () => remove(shown), { class: "danger" })] : []),
    ...(all.length > 0 ? [button(t("delete_all"), () => remove(() => true), { class: "danger" })] : []),
  ];
  byId("deletions").replaceChildren(...deletions);
  const empty = all.length === 0 ? t("log_none", RULES.map((rule) => rule.name).join(", ")) : t("log_no_match");
  byId("rows").replaceChildren(
    ...Array.from(days, ([name, rows]) => table(name, rows, before, remove)),
    ...(found.length === 0 ? [element("p", {}, empty)] : []),
    ...(found.length > most ? [button(t("show_more"), () => { most += AT_ONCE; again(); })] : []),
  );
  byId<HTMLButtonElement>("export").disabled = all.length === 0;
});

function download(all: readonly Entry[]): void {
  const url = URL.createObjectURL(new Blob([toCsv(all)], { type: "text/csv" }));
  element("a", { href: url, download: "searchveil-log.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

void page(async (database) => {
  const again = (): void => {
    most = AT_ONCE;
    void show(database);
  };
  for (const input of [text, site, day]) input.oninput = again;
  byId("clear").onclick = () => {
    for (const input of [text, site, day]) input.value = "";
    again();
  };
  byId("export").onclick = async () => download(await entries(database));
  await show(database);
});
