// Keys, shares, reports and seals are equal to those of the Python client, byte for byte.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DhkemX25519HkdfSha256 } from "@hpke/core";
import { x25519 } from "@noble/curves/ed25519.js";
import { bigEndian, hex, toNumber, unhex } from "../src/core/bytes.js";
import { normal } from "../src/core/normal.js";
import {
  coin,
  dummy,
  type Ephemeral,
  heads,
  makeReport,
  primaryInput,
  receipt,
  REPORT_BYTES,
  seal,
  secondaryInput,
  secretOf,
  share,
  shareNumber,
  tagOf,
} from "../src/core/report.js";
import { jobOf, readEpochs, readJob } from "../src/core/jobs.js";
import { body, credential, freshRequest, fromText, tokens, toText, userSecret } from "../src/core/tokens.js";
import { blindingSeed } from "../src/core/client.js";
import { blind, finalize } from "../src/core/voprf.js";
import { evaluate } from "./programs.js";
import { CLIENT, REPORTS } from "./vectors.js";

const PUBLIC = unhex(REPORTS.keys["oprf_public"] ?? "");

/** Fixed ephemeral keys, one after the other. */
function drawing(...keys: readonly string[]): Ephemeral {
  const left = [...keys];
  const kem = new DhkemX25519HkdfSha256();
  return async () => {
    const privateKey = unhex(left.shift() ?? "");
    const publicKey = x25519.getPublicKey(privateKey);
    return {
      privateKey: await kem.importKey("raw", privateKey.buffer, false),
      publicKey: await kem.deserializePublicKey(publicKey.slice().buffer),
    };
  };
}

for (const set of REPORTS.sets) {
  const job = readJob(set.document, unhex(CLIENT.signer));
  test(`reports of job ${set.job}`, async () => {
    assert.equal(job.id, set.job);
    for (const one of set.reports) {
      const id = unhex(job.id);
      const user = unhex(one.user_secret);
      assert.equal(normal(one.typed), one.text);
      assert.equal(hex(primaryInput(id, one.text)), one.oprf_input);
      assert.equal(hex(blind(unhex(one.oprf_input), littleEndian(one.blind)).element), one.blinded);
      const output = unhex(one.oprf_output);
      const secret = secretOf(output);
      assert.equal(hex(secret), one.secret);
      assert.equal(hex(tagOf(secret)), one.tag);
      const x = shareNumber(user, id, one.text);
      assert.equal(hex(bigEndian(x, 16)), one.share.x);
      assert.equal(hex(bigEndian(share(secret, one.share.k, x), 32)), one.share.y);
      // JSON numbers lose their last digits in JavaScript.
      assert.equal(Number(coin(user, id, one.text)), one.coin);
      const ofSpelling = evaluate(unhex(REPORTS.keys["oprf_private"] ?? ""), secondaryInput(id, one.text, one.typed));
      const k = job.secondary_k;
      const spelling = k === null ? null : { typed: one.typed, output: ofSpelling, k };
      const report = makeReport({ job: id, text: one.text, output, k: job.policy.k, x, token: unhex(one.token), spelling });
      assert.equal(hex(report), one.report);
      assert.equal(hex(receipt(report)), one.receipt);
      const server = unhex(REPORTS.keys["server_public"] ?? "");
      assert.equal(hex(await seal(report, server, [], drawing(one.ephemeral))), one.sealed);
      const relay = { number: 9, key: unhex(REPORTS.keys["relay_public"] ?? "") };
      assert.equal(hex(await seal(report, server, [relay], drawing(one.ephemeral, one.relay_ephemeral))), one.wrapped);
    }
  });
}

/** A scalar in the vectors, as the 64 bytes that reduce to it. */
function littleEndian(scalar: string): Uint8Array {
  const wide = new Uint8Array(64);
  wide.set(unhex(scalar));
  return wide;
}

test("two relays", async () => {
  const { report, server, relays, ephemeral, wrapped } = CLIENT.layers;
  const hops = relays.map(({ number, key }) => ({ number, key: unhex(key) }));
  assert.equal(hex(await seal(unhex(report), unhex(server), hops, drawing(...ephemeral))), wrapped);
});

test("seals draw another ephemeral key each time", async () => {
  const server = unhex(CLIENT.layers.server);
  const sealed = await Promise.all([1, 2].map(() => seal(unhex(CLIENT.layers.report), server, [])));
  assert.notDeepEqual(sealed[0], sealed[1]);
});

test("tokens", () => {
  const { public: key, wide, request, body: sent, answer, tokens: expected } = CLIENT.tokens;
  const kept = fromText(request);
  assert.equal(toText(kept), request);
  for (const [i, one] of wide.entries()) {
    const made = blind(kept.nonces[i] as Uint8Array, unhex(one));
    assert.deepEqual(made, kept.blinded[i]);
  }
  assert.equal(hex(body(kept)), sent);
  assert.deepEqual(tokens(kept, unhex(key), unhex(answer)).map(hex), expected);
  const fresh = [freshRequest(1), freshRequest(1)].map(toText);
  assert.notEqual(fresh[0], fresh[1]);
  assert.deepEqual(fromText(""), { nonces: [], blinded: [] });
});

test("an answer under another key, changed, or of another number is refused", () => {
  const { public: key, request, answer } = CLIENT.tokens;
  const kept = fromText(request);
  assert.throws(() => tokens(kept, PUBLIC.toReversed(), unhex(answer)));
  const other = unhex(REPORTS.sets[0]?.reports[0]?.blinded ?? "");
  assert.throws(() => tokens(kept, other, unhex(answer)));
  for (const at of [0, 40, 100, 150]) {
    const changed = unhex(answer);
    changed[at] = (changed[at] ?? 0) ^ 1;
    assert.throws(() => tokens(kept, unhex(key), changed), `byte ${at}`);
  }
  assert.throws(() => tokens(kept, unhex(key), unhex(answer).slice(32)));
  const identity = new Uint8Array(32);
  assert.throws(() => finalize(unhex(key), kept.nonces, kept.blinded, Uint8Array.of(...identity, ...unhex(answer).slice(32))));
});

test("blinds follow from the token", () => {
  for (const { kept, token, number, blind: expected } of CLIENT.blinds) {
    assert.equal(hex(blind(new Uint8Array(), blindingSeed(unhex(kept), unhex(token), number)).blind), expected);
  }
});

test("credentials and the member's secret", async () => {
  const { invitation, server, randomness, signer, passphrase, user_secret } = REPORTS.member;
  assert.equal(credential(invitation, "server"), server);
  assert.equal(credential(invitation, "randomness"), randomness);
  assert.equal(hex(await userSecret(unhex(signer), invitation, passphrase)), user_secret);
});

test("coins", () => {
  assert.equal(heads(0n, 2 ** -64), true);
  assert.equal(heads(1n, 2 ** -64), false);
  assert.equal(heads(2n ** 63n - 1n, 0.5), true);
  assert.equal(heads(2n ** 63n, 0.5), false);
  // int(Fraction(0.1) * 2**64) in Python
  assert.equal(heads(1844674407370955264n - 1n, 0.1), true);
  assert.equal(heads(1844674407370955264n, 0.1), false);
});

test("dummies have the size of reports, the job, and nothing else in common", () => {
  const [one, other] = [dummy(new Uint8Array(16)), dummy(new Uint8Array(16))];
  assert.equal(one.length, REPORT_BYTES);
  assert.deepEqual(one.slice(0, 18), Uint8Array.of(1, 0, ...new Uint8Array(16)));
  assert.notDeepEqual(one.slice(18), other.slice(18));
});

test("epochs", () => {
  const { signer, ...document } = CLIENT.epochs;
  assert.deepEqual(readEpochs(document, unhex(signer))["2975"], { oprf: "00", token: "11", ends: 1 });
  assert.throws(() => readEpochs({ ...document, epochs: document.epochs.replace("00", "01") }, unhex(signer)), /epochs_forged/);
  assert.throws(() => readEpochs(document, unhex(CLIENT.signer)), /epochs_forged/);
});

test("numbers", () => {
  assert.equal(toNumber(Uint8Array.of(1, 0)), 256n);
  assert.equal(hex(bigEndian(258, 4)), "00000102");
  assert.throws(() => unhex("0g"));
  assert.equal(jobOf("[]"), null);
  assert.equal(jobOf("no JSON"), null);
});
