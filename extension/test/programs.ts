// A server, a randomness server and a relay in a test's own memory, behind a network that loses requests and answers.

import { Chacha20Poly1305 } from "@hpke/chacha20poly1305";
import { CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import { ed25519, ristretto255_oprf, x25519 } from "@noble/curves/ed25519.js";
import { equal, hex, join, split, toNumber, utf8 } from "../src/core/bytes.js";
import type { Member } from "../src/core/community.js";
import { type Http, httpBy, type Question } from "../src/core/http.js";
import { inEnglish, type Job, jobOf, wordsOf } from "../src/core/jobs.js";
import type { Policy } from "../src/core/policy.js";
import { receipt, REPORT_BYTES } from "../src/core/report.js";
import { credential } from "../src/core/tokens.js";

const { voprf } = ristretto255_oprf;
type Keys = ReturnType<typeof voprf.generateKeyPair>;

/** The output for an input, for whoever holds the key. */
export function evaluate(privateKey: Uint8Array, input: Uint8Array): Uint8Array {
  return (voprf as unknown as { evaluate(key: Uint8Array, input: Uint8Array): Uint8Array }).evaluate(privateKey, input);
}

/** What becomes of a request: it is lost, or its answer is; the browser ends while it waits; an error; or all is well. */
export type Fault = "before" | "after" | "killed" | number | null;

export interface Arrived {
  readonly kind: number;
  readonly job: string;
  readonly tag: string;
  readonly x: bigint;
  readonly y: bigint;
  readonly token: string;
}

export class Programs {
  fault: (question: Question) => Fault = () => null;
  readonly asked: Question[] = [];
  readonly reports = new Map<string, Arrived>(); // by token: each counts once
  dummies = 0;
  lies = (_report: string): boolean => false; // of a relay that says that the server refuses
  clock = 1_800_000_000_000;
  private readonly signer = ed25519.utils.randomSecretKey();
  private readonly randomnessSigner = ed25519.utils.randomSecretKey();
  private readonly serverKey = x25519.utils.randomSecretKey();
  private readonly relayKey = x25519.utils.randomSecretKey();
  private readonly oprf: Keys = voprf.generateKeyPair();
  private readonly epochToken: Keys = voprf.generateKeyPair();
  private readonly jobToken: Keys = voprf.generateKeyPair();
  private readonly jobs: { readonly job: Job; readonly document: unknown }[] = [];
  private readonly batches = new Map<string, number>(); // bodies that were answered before, with their number of tokens
  private readonly spent = new Map<string, string>();

  readonly member: Member = {
    community: {
      name: "test",
      server: "https://server.example",
      server_key: hex(x25519.getPublicKey(this.serverKey)),
      signer: hex(ed25519.getPublicKey(this.signer)),
      randomness: "https://randomness.example",
      randomness_signer: hex(ed25519.getPublicKey(this.randomnessSigner)),
      relays: [1, 2].map((number) => ({ number, url: `https://relay-${number}.example`, key: hex(x25519.getPublicKey(this.relayKey)) })),
      hops: 1,
    },
    invitation: "00112233445566778899aabbccddeeff",
    secret: "42".repeat(32),
  };

  readonly http: Http = httpBy((question) => this.carry(question));

  job(policy: Partial<Policy>, more: Partial<Job> = {}): Job {
    const now = Math.floor(this.clock / 1000);
    const usual: Policy = { name: "FT_u", k: 3, per_user: 1000, p: 1, epsilon: null, delta: null, threshold: 0, colluding: 0 };
    const fields = {
      version: 1,
      community: "test",
      artifact: "query",
      policy: { ...usual, ...policy },
      epoch: 7,
      randomness_key: hex(this.oprf.publicKey),
      randomness_token_key: hex(this.epochToken.publicKey),
      token_key: hex(this.jobToken.publicKey),
      opens: now - this.jobs.length - 1,
      expires: now + 86_400,
      secondary_k: null,
      domains: false,
      recent: false,
      ...more,
    };
    const text = JSON.stringify({ ...fields, words: wordsOf(fields as unknown as Job, inEnglish) });
    const signature = hex(ed25519.sign(utf8(`searchveil crowd job v1\n${text}`), this.signer));
    const job = jobOf(text) as Job;
    this.jobs.push({ job, document: JSON.stringify({ job: text, signature }) });
    return job;
  }

  /** What the randomness server's key gives for an input. */
  output(input: Uint8Array): Uint8Array {
    return evaluate(this.oprf.secretKey, input);
  }

  /** Reports of a job that are no dummies. */
  arrived(job: Job): Arrived[] {
    return [...this.reports.values()].filter((one) => one.job === job.id);
  }

  async carry(question: Question): Promise<{ status: number; body: ArrayBuffer }> {
    this.asked.push(question);
    const fault = this.fault(question);
    if (fault === "before") throw new Error("lost");
    if (typeof fault === "number") return { status: fault, body: utf8(JSON.stringify({ error: "no" })).buffer };
    const answer = await this.answer(question);
    if (fault === "after") throw new Error("lost");
    if (fault === "killed") return new Promise(() => undefined);
    return answer;
  }

  private async answer({ url, body, shown }: Question): Promise<{ status: number; body: ArrayBuffer }> {
    try {
      const found = await this.route(new URL(url), body ?? new Uint8Array(), shown);
      const bytes = found instanceof Uint8Array ? found : utf8(JSON.stringify(found));
      return { status: 200, body: bytes.slice().buffer as ArrayBuffer };
    } catch (error) {
      return { status: 400, body: utf8(JSON.stringify({ error: String(error) })).buffer };
    }
  }

  private async route({ hostname, pathname }: URL, body: Uint8Array, shown: string | null): Promise<unknown> {
    const program = hostname.split(".")[0];
    const [, kind] = pathname.split("/");
    if (program === "server" && kind === "jobs") return this.jobs.map((one) => one.document);
    if (program === "randomness" && kind === "epochs") return this.epochs();
    if (program?.startsWith("relay")) return this.take(body);
    if (kind === "evaluate") return this.evaluated(body);
    const known = credential(this.member.invitation, program as "server" | "randomness");
    if (shown !== known) throw new Error("this credential belongs to no member");
    return this.tokens(program as string, pathname, body);
  }

  private epochs(): unknown {
    const epoch = { oprf: hex(this.oprf.publicKey), token: hex(this.epochToken.publicKey) };
    const epochs = JSON.stringify({ epochs: { "7": epoch } });
    return { epochs, signature: hex(ed25519.sign(utf8(`searchveil crowd epochs v1\n${epochs}`), this.randomnessSigner)) };
  }

  private tokens(program: string, path: string, body: Uint8Array): unknown {
    const name = path.split("/").at(-1);
    const most = program === "randomness" ? 200 : (this.jobs.find(({ job }) => job.id === name)?.job.policy.per_user ?? 0);
    const issued = [...this.batches].filter(([key]) => key.startsWith(path)).reduce((sum, [, number]) => sum + number, 0);
    if (body.length === 0) return { left: most - issued };
    const key = `${path} ${hex(body)}`;
    if (!this.batches.has(key) && issued + body.length / 32 > most) throw new Error("no tokens are left");
    this.batches.set(key, body.length / 32);
    return batch(program === "randomness" ? this.epochToken : this.jobToken, body);
  }

  private evaluated(body: Uint8Array): Uint8Array {
    const [token, question] = [body.slice(0, 96), body.slice(96)];
    if (!genuine(this.epochToken, token)) throw new Error("an evaluation needs a token");
    const before = this.spent.get(hex(token));
    if (before !== undefined && before !== hex(question)) throw new Error("this token was spent on another question");
    if (question.length !== 64 * 32) throw new Error("a batch that is not full");
    this.spent.set(hex(token), hex(question));
    return batch(this.oprf, question);
  }

  private async take(body: Uint8Array): Promise<Uint8Array> {
    const answers = [];
    for (const wrapped of split(body, REPORT_BYTES + 48 + 49)) {
      const inner = await open(this.relayKey, "searchveil crowd relay v1", wrapped);
      if (inner[0] !== 0) throw new Error("a way that leads nowhere");
      const inside = await open(this.serverKey, "searchveil crowd report v1", inner.slice(1));
      answers.push(this.lies(hex(inside)) ? refusal() : this.report(inside));
    }
    return join(...answers);
  }

  private report(report: Uint8Array): Uint8Array {
    const fields = { kind: report[1] as number, job: hex(report.slice(2, 18)), tag: hex(report.slice(18, 50)) };
    const found = { ...fields, x: toNumber(report.slice(50, 66)), y: toNumber(report.slice(66, 98)), token: hex(report.slice(-96)) };
    if (found.kind === 0) this.dummies += 1;
    else if (!genuine(this.jobToken, report.slice(-96))) return refusal();
    else {
      const before = this.reports.get(found.token);
      if (before !== undefined && (before.tag !== found.tag || before.x !== found.x)) return refusal();
      this.reports.set(found.token, found);
    }
    return join(Uint8Array.of(0), receipt(report));
  }
}

function refusal(): Uint8Array {
  return new Uint8Array(17).fill(1, 0, 1);
}

function batch(keys: Keys, body: Uint8Array): Uint8Array {
  const { evaluated, proof } = voprf.blindEvaluateBatch(keys.secretKey, keys.publicKey, split(body, 32));
  return join(...evaluated, proof);
}

function genuine(keys: Keys, token: Uint8Array): boolean {
  return equal(evaluate(keys.secretKey, token.slice(0, 32)), token.slice(32));
}

async function open(privateKey: Uint8Array, info: string, sealed: Uint8Array): Promise<Uint8Array> {
  const kem = new DhkemX25519HkdfSha256();
  const suite = new CipherSuite({ kem, kdf: new HkdfSha256(), aead: new Chacha20Poly1305() });
  const recipient = await suite.createRecipientContext({
    recipientKey: await kem.importKey("raw", privateKey.slice().buffer, false),
    enc: sealed.slice(0, 32).buffer as ArrayBuffer,
    info: utf8(info).buffer,
  });
  return new Uint8Array(await recipient.open(sealed.slice(32).buffer as ArrayBuffer));
}

