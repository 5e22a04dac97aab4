// What the pages share: their head with the state and the pause button, texts, elements, questions.

import { type Database, openStore, settings } from "../core/store.js";
import type { Reply, Request } from "../background/messages.js";

export function t(key: string, ...filled: readonly string[]): string {
  return chrome.i18n.getMessage(key, [...filled]);
}

export const LANGUAGE = t("lang");

/** The element with this id, which the page has. */
export function byId<Kind extends HTMLElement>(id: string): Kind {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no ${id}`);
  return found as Kind;
}

type Attributes = Readonly<Record<string, string | boolean | ((event: Event) => void)>>;

/** An element; functions listen to the event that they are named after, false leaves an attribute out. */
export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

export function button(label: string, action: () => unknown, attributes: Attributes = {}): HTMLButtonElement {
  return element("button", { type: "button", click: () => void action(), ...attributes }, label);
}

export function when(milliseconds: number): string {
  return new Date(milliseconds).toLocaleString(LANGUAGE, { dateStyle: "medium", timeStyle: "short" });
}

/** A problem in words: of ours, or what a server said. */
export function problem(name: string): string {
  return t(`problem_${name}`) || (/^\d{3}\b/.test(name) ? t("problem_status", name) : name);
}

export async function ask(request: Request): Promise<string> {
  return ((await chrome.runtime.sendMessage(request)) as Reply).problem;
}

/** Say it on the page, and to a screen reader. */
export function say(text: string): void {
  byId("said").textContent = text;
}

/** Whether a question is answered with yes. */
export function confirmed(question: string, yes: string): Promise<boolean> {
  return new Promise((resolve) => {
    const dialog = element("dialog", { "aria-labelledby": "question" });
    const answer = (value: boolean) => (): void => {
      dialog.close();
      dialog.remove();
      resolve(value);
    };
    const buttons = element("p", { class: "actions" }, button(yes, answer(true), { class: "danger" }), button(t("close"), answer(false), { autofocus: true }));
    dialog.append(element("p", { id: "question" }, question), buttons);
    dialog.addEventListener("cancel", answer(false));
    document.body.append(dialog);
    dialog.showModal();
  });
}

function translate(): void {
  document.documentElement.lang = LANGUAGE;
  for (const one of document.querySelectorAll<HTMLElement>("[data-text]")) one.textContent = t(one.dataset["text"] ?? "");
  document.title = `${document.querySelector("h1")?.textContent ?? ""} – searchveil`;
}

function head(database: Database, changed: () => unknown): () => Promise<void> {
  const state = element("span", { class: "state", role: "status" });
  const toggle = button("", async () => {
    await ask({ type: "toggle" });
    await show();
    await changed();
  });
  const show = async (): Promise<void> => {
    const { paused } = await settings(database);
    state.textContent = t(paused ? "paused" : "recording");
    state.classList.toggle("paused", paused);
    toggle.textContent = t(paused ? "resume" : "pause");
  };
  const here = location.pathname.slice(1, -".html".length);
  const links = ["log", "jobs", "settings"].map((name) =>
    element("a", { href: `${name}.html`, "aria-current": name === here ? "page" : false }, t(`menu_${name}`)),
  );
  byId("head").append(element("nav", { "aria-label": t("navigation") }, ...links), element("p", {}, state, " ", toggle));
  return show;
}

/** Drawings one after the other, so that none is overtaken by an older one. */
export function inTurn<Given extends readonly unknown[]>(draw: (...given: Given) => Promise<void>): (...given: Given) => Promise<void> {
  let turn: Promise<unknown> = Promise.resolve();
  return (...given) => {
    const done = turn.then(() => draw(...given));
    turn = done.catch(() => undefined);
    return done;
  };
}

/** Begin a page; `show` draws it, and is called again when something has changed elsewhere. */
export async function page(show: (database: Database) => Promise<void>): Promise<void> {
  const database = await openStore();
  translate();
  const state = head(database, () => show(database));
  const all = async (): Promise<void> => {
    await state();
    await show(database);
  };
  await all();
  // The worker says when something has changed: a search came in, the icon was clicked.
  new BroadcastChannel("searchveil").onmessage = () => void all();
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") void all();
  });
}
