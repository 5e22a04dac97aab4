// How requests leave the worker (core/http.ts says why anonymous ones take another way in Firefox).

import { type Answered, direct, type Fetch, httpBy, type Question } from "../core/http.js";

let frame: Promise<HTMLIFrameElement> | null = null;

/** Chromium's worker has no document, and needs none: its Origin is the same on all machines. */
const framed = (): boolean => location.protocol === "moz-extension:";

function sender(): Promise<HTMLIFrameElement> {
  frame ??= new Promise((resolve) => {
    const made = document.createElement("iframe");
    made.setAttribute("sandbox", "allow-scripts"); // and no allow-same-origin
    made.src = "sender.html";
    made.addEventListener("load", () => resolve(made));
    document.documentElement.append(made);
  });
  return frame;
}

const throughFrame: Fetch = async (question: Question) => {
  const to = await sender();
  return new Promise<Answered>((resolve, reject) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = (event: MessageEvent<Answered | null>) => {
      port1.close();
      if (event.data === null) reject(new Error("no answer"));
      else resolve(event.data);
    };
    to.contentWindow?.postMessage(question, "*", [port2]);
  });
};

export const http = httpBy((question) => (question.shown === null && framed() ? throughFrame(question) : direct(question)));
