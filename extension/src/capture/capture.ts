// Runs on search pages alone: tells the worker what was searched, and which result was clicked.

import type { Seen } from "../core/record.js";
import { before, searchPage, target } from "./rules.js";

let last = "";

function boxed(selector: string): string {
  return document.querySelector<HTMLInputElement>(selector)?.value ?? "";
}

function tell(seen: Seen): void {
  // The extension may have been updated or switched off since this page was loaded.
  if (chrome.runtime?.id !== undefined) chrome.runtime.sendMessage(seen).catch(() => undefined);
}

/** `anew`: somebody searched. Otherwise a page is looked at again, which is no search. */
function look(anew: boolean): void {
  const page = searchPage(location.href, boxed);
  const query = page?.query ?? last;
  if (page === null || query === last) return;
  last = query;
  if (anew) tell({ type: "search", site: page.rule.name, query, url: null, rank: null });
}

function clicked(event: MouseEvent): void {
  const page = event.isTrusted && event.button !== 2 ? searchPage(location.href, boxed) : null;
  if (page === null || !(event.target instanceof Element)) return;
  const link = event.target.closest<HTMLAnchorElement>("a[href]");
  if (link === null || !link.matches(page.rule.results)) return;
  const addressOf = (one: HTMLAnchorElement): string | null => target(page.rule, one.getAttribute("href") ?? "", location.href);
  const url = addressOf(link);
  if (url === null) return;
  const links = Array.from(document.querySelectorAll<HTMLAnchorElement>(page.rule.results), addressOf);
  const place = [...new Set(links.filter((one) => one !== null))].indexOf(url) + 1;
  const earlier = before(page, location.href);
  look(true);
  tell({ type: "click", site: page.rule.name, query: page.query, url, rank: earlier === null ? null : earlier + place });
}

/** Loaded again, or come back to. */
function seenBefore(): boolean {
  const [entry] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  return entry?.type === "reload" || entry?.type === "back_forward";
}

interface EntryChange extends Event {
  readonly navigationType?: string;
}

/** Pages that search anew without being loaded anew; nothing that a page does before anybody has touched it. */
function follow(): void {
  const changed = (event: EntryChange): void => look(event.navigationType !== "traverse" && navigator.userActivation.hasBeenActive);
  const navigation = (window as { navigation?: EventTarget }).navigation;
  if (navigation !== undefined) {
    navigation.addEventListener("currententrychange", changed);
  } else {
    window.addEventListener("popstate", () => look(false));
    setInterval(() => look(navigator.userActivation.hasBeenActive), 1000);
  }
}

function start(): void {
  look(!seenBefore());
  // The page may take the address away from the click before it bubbles up here.
  document.addEventListener("click", clicked, true);
  document.addEventListener("auxclick", clicked, true);
  follow();
}

// A document that the extension shall not see: private windows are refused by the manifest already.
if (!chrome.extension?.inIncognitoContext) {
  // The browser may load a page that it guesses will be asked for: nobody has searched there yet.
  if ((document as { prerendering?: boolean }).prerendering) document.addEventListener("prerenderingchange", start, { once: true });
  else start();
}
