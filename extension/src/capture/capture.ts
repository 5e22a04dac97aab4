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

function look(): void {
  const page = searchPage(location.href, boxed);
  if (page === null || page.query === last) return;
  last = page.query;
  tell({ type: "search", site: page.rule.name, query: page.query, url: null, rank: null });
}

function clicked(event: MouseEvent): void {
  const page = event.isTrusted && event.button !== 2 ? searchPage(location.href, boxed) : null;
  if (page === null || !(event.target instanceof Element)) return;
  const link = event.target.closest<HTMLAnchorElement>("a[href]");
  if (link === null || !link.matches(page.rule.results)) return;
  const addressOf = (one: HTMLAnchorElement): string | null => target(page.rule, one.getAttribute("href") ?? "", location.href);
  const links = Array.from(document.querySelectorAll<HTMLAnchorElement>(page.rule.results), addressOf);
  const url = addressOf(link);
  if (url === null) return;
  const place = [...new Set(links)].indexOf(url) + 1;
  const earlier = before(page.rule, location.href);
  look();
  tell({ type: "click", site: page.rule.name, query: page.query, url, rank: earlier === null ? null : earlier + place });
}

// A document that the extension shall not see: private windows are refused by the manifest already.
if (!chrome.extension?.inIncognitoContext) {
  look();
  // The page may take the address away from the click before it bubbles up here.
  document.addEventListener("click", clicked, true);
  document.addEventListener("auxclick", clicked, true);
  // Pages that search anew without being loaded anew.
  (window as { navigation?: EventTarget }).navigation?.addEventListener("navigatesuccess", look);
  window.addEventListener("popstate", look);
}
