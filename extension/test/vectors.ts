// The project's vectors, which the Python client is tested with too.

import { readFileSync } from "node:fs";
import { join } from "node:path";

function read(name: string): unknown {
  return JSON.parse(readFileSync(join(import.meta.dirname, "../../../tests/vectors/crowd", name), "utf8"));
}

interface Report {
  readonly typed: string;
  readonly text: string;
  readonly user_secret: string;
  readonly oprf_input: string;
  readonly blind: string;
  readonly blinded: string;
  readonly oprf_output: string;
  readonly secret: string;
  readonly tag: string;
  readonly coin: number;
  readonly share: { readonly k: number; readonly x: string; readonly y: string };
  readonly primary: string;
  readonly secondary: string;
  readonly token: string;
  readonly report: string;
  readonly receipt: string;
  readonly ephemeral: string;
  readonly sealed: string;
  readonly relay_ephemeral: string;
  readonly wrapped: string;
}

export const REPORTS = read("reports.json") as {
  readonly keys: Readonly<Record<string, string>>;
  readonly member: {
    readonly invitation: string;
    readonly server: string;
    readonly randomness: string;
    readonly signer: string;
    readonly passphrase: string;
    readonly user_secret: string;
  };
  readonly sets: readonly { readonly document: string; readonly job: string; readonly reports: readonly Report[] }[];
};

interface Row {
  readonly query: string;
  readonly time: number | null;
  readonly url: string | null;
  readonly rank: number | null;
}

export const CLIENT = read("client.json") as {
  readonly signer: string;
  readonly user: string;
  readonly normal: readonly [string, string][];
  readonly personal: readonly [string, boolean][];
  readonly log: readonly Row[];
  readonly taken: readonly {
    readonly text: string;
    readonly too_long: number;
    readonly artifacts: readonly { readonly text: string; readonly typed: string }[];
    readonly sent: readonly boolean[];
  }[];
  readonly jobs: readonly { readonly document: string; readonly id: string }[];
  readonly broken: Readonly<Record<string, readonly string[]>>;
  readonly tokens: {
    readonly public: string;
    readonly wide: readonly string[];
    readonly request: string;
    readonly body: string;
    readonly answer: string;
    readonly tokens: readonly string[];
  };
  readonly blinds: readonly { readonly kept: string; readonly token: string; readonly number: number; readonly blind: string }[];
  readonly epochs: { readonly epochs: string; readonly signature: string; readonly signer: string };
  readonly layers: {
    readonly report: string;
    readonly server: string;
    readonly relays: readonly { readonly number: number; readonly key: string }[];
    readonly ephemeral: readonly string[];
    readonly wrapped: string;
  };
};

