// What pages ask of the worker, and what it answers.

import type { Answer } from "../core/store.js";
import type { Decided } from "../core/client.js";

export type Request =
  | { readonly type: "refresh" } // fetch the jobs
  | { readonly type: "agree"; readonly job: string; readonly answer: Answer; readonly seen: readonly Decided[] }
  | { readonly type: "work" } // go on with what waits
  | { readonly type: "retry"; readonly job: string } // now, after trouble
  | { readonly type: "toggle" } // pause, or go on
  | { readonly type: "changed" }; // settings, consent or membership: show it on the icon

/** `problem` is empty, or a key of _locales. */
export interface Reply {
  readonly problem: string;
}
