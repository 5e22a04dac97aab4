// Requests to the community's programs.
//
// Requests that show who asks and requests that must not are kept apart: they carry no cookies, and as browsers pool
// connections by whether cookies could go along, the two kinds never share one. Firefox would name this installation in
// the Origin header of every request; anonymous ones go through a frame that has no origin (background/sender.ts).

const PATIENCE = 120_000; // milliseconds

/** A program that cannot be reached, or refuses; the message is a key of _locales or what the program said. */
export class HttpError extends Error {
  constructor(
    message: string,
    readonly status = 0, // of its answer; 0 if there is none
  ) {
    super(message);
  }

  /** Whether the same request may be answered later: too many of them, a program that is not well, none at all. */
  get passes(): boolean {
    return this.status === 0 || this.status >= 500 || [408, 425, 429].includes(this.status);
  }
}

export interface Http {
  json(url: string, shown?: string): Promise<unknown>;
  post(url: string, body: Uint8Array<ArrayBuffer>, shown?: string): Promise<Uint8Array>;
}

export interface Question {
  readonly url: string;
  readonly method: "GET" | "POST";
  readonly body: Uint8Array<ArrayBuffer> | null;
  readonly shown: string | null; // the credential
}

export interface Answered {
  readonly status: number;
  readonly body: ArrayBuffer;
}

export type Fetch = (question: Question) => Promise<Answered>;

/** One request by the browser's fetch. */
export const direct: Fetch = async ({ url, method, body, shown }) => {
  const headers: Record<string, string> = { "Accept-Language": "en" }; // not the languages of this browser
  if (shown !== null) headers["Authorization"] = `Bearer ${shown}`;
  const answer = await fetch(url, {
    method,
    headers,
    body,
    credentials: shown === null ? "omit" : "include",
    cache: "no-store",
    redirect: "error",
    referrerPolicy: "no-referrer",
    signal: AbortSignal.timeout(PATIENCE),
  });
  return { status: answer.status, body: await answer.arrayBuffer() };
};

export function httpBy(ask: (question: Question) => Promise<Answered>): Http {
  const answer = async (question: Question): Promise<Uint8Array> => {
    let found: Answered;
    try {
      found = await ask(question);
    } catch {
      throw new HttpError("unreachable");
    }
    if (found.status !== 200) throw new HttpError(`${found.status} ${said(found.body)}`.trim(), found.status);
    return new Uint8Array(found.body);
  };
  return {
    async json(url, shown) {
      const found = await answer({ url, method: "GET", body: null, shown: shown ?? null });
      try {
        return JSON.parse(new TextDecoder().decode(found)) as unknown;
      } catch {
        throw new HttpError("unreachable");
      }
    },
    post: (url, body, shown) => answer({ url, method: "POST", body, shown: shown ?? null }),
  };
}

function said(body: ArrayBuffer): string {
  try {
    return String((JSON.parse(new TextDecoder().decode(body)) as { error?: unknown }).error ?? "").slice(0, 200);
  } catch {
    return "";
  }
}
