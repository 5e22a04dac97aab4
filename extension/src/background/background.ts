// The worker: a service worker in Chromium, an event page in Firefox. It may be put to sleep at any moment and keeps
// nothing in memory that it needs; alarms wake it up.

import { Client } from "../core/client.js";
import { HttpError } from "../core/http.js";
import { JobError } from "../core/jobs.js";
import { forgetOld, record, type Seen } from "../core/record.js";
import { type Database, openStore, set, settings } from "../core/store.js";
import { http } from "./anonymous.js";
import type { Reply, Request } from "./messages.js";
import { claim, request } from "./trust.js";

const HOUR = 60; // minutes
const AWAKE = 20_000; // milliseconds: a call of the browser keeps a busy worker awake

let opened: Promise<Database> | null = null;

function store(): Promise<Database> {
  opened ??= openStore().then((database) => {
    database.addEventListener("close", () => (opened = null));
    return database;
  });
  return opened;
}

async function client(): Promise<Client> {
  return new Client(await store(), http);
}

// --- The icon, and the pages that are open ---

const pages = new BroadcastChannel("searchveil");

async function showState(): Promise<void> {
  const database = await store();
  const { paused } = await settings(database);
  const member = await client();
  const waiting = await Promise.all((await member.jobs()).map((job) => member.waits(job)));
  const jobs = waiting.filter(Boolean).length;
  const state = paused ? "paused" : "on";
  const path = Object.fromEntries([16, 32, 48].map((size) => [size, `icons/${state}-${size}.png`]));
  await chrome.action.setIcon({ path });
  const title = chrome.i18n.getMessage(paused ? "icon_paused" : "icon_recording");
  await chrome.action.setTitle({ title: jobs > 0 ? `${title} ${chrome.i18n.getMessage("icon_jobs", String(jobs))}` : title });
  await chrome.action.setBadgeText({ text: paused ? "❚❚" : jobs > 0 ? String(jobs) : "" });
  await chrome.action.setBadgeBackgroundColor({ color: paused ? "#8a4b00" : "#4338a0" });
  pages.postMessage("changed");
}

async function togglePause(): Promise<void> {
  await inTurn(async () => set(await store(), "paused", !(await settings(await store())).paused));
  await showState();
  void work();
}

// --- Jobs ---

/** One at a time, whatever wakes the worker up; then an alarm for what is left. */
async function work(): Promise<void> {
  await navigator.locks.request("searchveil work", async () => {
    const awake = setInterval(() => void chrome.runtime.getPlatformInfo(), AWAKE);
    try {
      const next = await (await client()).work();
      if (next === null) await chrome.alarms.clear("work");
      else await chrome.alarms.create("work", { when: Math.max(next, Date.now() + 1000), periodInMinutes: 1 });
    } finally {
      clearInterval(awake);
    }
  });
  await showState();
}

async function refresh(): Promise<void> {
  await (await client()).refresh();
  await work();
}

async function agree({ job: name, answer, seen }: Request & { type: "agree" }): Promise<string> {
  const member = await client();
  const job = (await member.jobs()).find((one) => one.id === name);
  if (job === undefined) return "job_unreadable";
  try {
    const begun = await navigator.locks.request("searchveil work", () => member.begin(job, seen));
    if (!begun) return "not_begun";
  } catch (error) {
    return error instanceof HttpError || error instanceof JobError ? error.message : "not_begun";
  }
  await member.answer(name, answer);
  void work();
  return "";
}

async function reply(request: Request): Promise<Reply> {
  switch (request.type) {
    case "refresh":
      await refresh();
      return { problem: String((await (await store()).get("setting", "problem")) ?? "") };
    case "agree":
      return { problem: await agree(request) };
    case "work":
      await work();
      return { problem: "" };
    case "retry":
      await (await client()).retry(request.job);
      void work();
      return { problem: "" };
    case "toggle":
      await togglePause();
      return { problem: "" };
    case "changed":
      await showState();
      return { problem: "" };
  }
}

// --- What wakes the worker up ---

let turn: Promise<unknown> = Promise.resolve();

/**
 * One after the other, as they came: a click may follow its search at once, and what was searched while paused is not
 * recorded, though recording goes on by the time its turn comes.
 */
function inTurn<T>(step: () => Promise<T>): Promise<T> {
  const done = turn.then(step);
  turn = done.catch(() => undefined);
  return done;
}

function recordLater(seen: Seen): Promise<boolean> {
  const now = Math.floor(Date.now()) / 1000;
  return inTurn(async () => record(await store(), seen, now));
}

chrome.runtime.onMessage.addListener((message: unknown, sender, answer) => {
  const seen = claim(message, sender, chrome.runtime.id);
  if (seen !== null) {
    void recordLater(seen).then(showState);
    return false;
  }
  const asked = request(message, sender, chrome.runtime.id, chrome.runtime.getURL(""));
  if (asked === null) return false;
  reply(asked).then(answer, () => answer({ problem: "not_begun" }));
  return true;
});

chrome.action.onClicked.addListener(() => void togglePause());

chrome.contextMenus.onClicked.addListener((menu) => {
  void chrome.tabs.create({ url: chrome.runtime.getURL(`${String(menu.menuItemId)}.html`) });
});

chrome.alarms.onAlarm.addListener(({ name }) => {
  if (name === "work") void work();
  if (name === "hourly") void hourly();
});

async function hourly(): Promise<void> {
  const database = await store();
  await forgetOld(database, Date.now() / 1000);
  if (!(await settings(database)).paused) await refresh();
}

async function prepare(): Promise<void> {
  for (const page of ["log", "jobs", "settings"]) {
    const title = chrome.i18n.getMessage(`menu_${page}`);
    chrome.contextMenus.create({ id: page, title, contexts: ["action"] }, () => void chrome.runtime.lastError);
  }
  await chrome.alarms.create("hourly", { delayInMinutes: 1, periodInMinutes: HOUR });
  await showState();
  await work();
}

chrome.runtime.onInstalled.addListener(({ reason }) => {
  void prepare();
  if (reason === "install") void chrome.tabs.create({ url: chrome.runtime.getURL("settings.html") });
});
chrome.runtime.onStartup.addListener(() => void prepare());
