// Whom the worker believes. A page cannot speak to it; but what runs in a page's process says what it likes, so a claim
// is taken only where the browser's own account of the sender bears it out.

import { searchPage } from "../capture/rules.js";
import type { Seen } from "../core/record.js";
import type { Request } from "./messages.js";

const LONGEST_ADDRESS = 8192; // characters

/** What the browser says of who sent a message. */
export interface Sender {
  readonly id?: string | undefined;
  readonly url?: string | undefined; // of the document; in Chromium as it was when it was loaded
  readonly frameId?: number | undefined;
  readonly documentLifecycle?: string | undefined; // in Chromium
  readonly tab?: { readonly incognito: boolean; readonly url?: string | undefined } | undefined; // the address as it is now
}

/** What a search page tells, if it comes from the page that it is about: shown in a tab, at an address with this query. */
export function claim(message: unknown, sender: Sender, extension: string): Seen | null {
  if (sender.id !== extension || sender.tab === undefined || sender.tab.incognito || sender.frameId !== 0) return null;
  if (sender.documentLifecycle === "prerender" || !isSeen(message)) return null;
  const { type, site, query, url, rank } = message;
  const pages = [sender.tab.url, sender.url].map((address) => searchPage(address ?? "", () => query));
  return pages.some((page) => page?.rule.name === site && page.query === query) ? { type, site, query, url, rank } : null;
}

function isSeen(message: unknown): message is Seen {
  const { type, site, query, url, rank } = (message ?? {}) as Record<string, unknown>;
  if (typeof site !== "string" || typeof query !== "string") return false;
  if (type === "search") return url === null && rank === null;
  return type === "click" && isAddress(url) && (rank === null || (Number.isSafeInteger(rank) && (rank as number) > 0));
}

function isAddress(url: unknown): boolean {
  return typeof url === "string" && url.length <= LONGEST_ADDRESS && URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

/** What one of the extension's own pages asks for; content scripts and other extensions ask in vain. */
export function request(message: unknown, sender: Sender, extension: string, home: string): Request | null {
  if (sender.id !== extension || sender.url?.startsWith(home) !== true || sender.tab?.incognito === true) return null;
  return typeof (message as { type?: unknown } | null)?.type === "string" ? (message as Request) : null;
}
