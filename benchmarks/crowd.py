"""How fast a crowd's programs are: OPRF evaluations, durable intake through a relay, aggregation.

python benchmarks/crowd.py oprf
python benchmarks/crowd.py intake --reports 20000
python benchmarks/crowd.py aggregate --reports 1000000 --k 50
python benchmarks/crowd.py simulate --clients 10000
"""

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import sqlalchemy as sa

from searchveil.crowd.aggregate import open_reports
from searchveil.crowd.config import invite
from searchveil.crowd.jobs import Job
from searchveil.crowd.policy import make_policy
from searchveil.crowd.programs import new_job
from searchveil.crowd.randomness import BATCH, read_epochs
from searchveil.crowd.relay import ANSWER_BYTES
from searchveil.crowd.report import make_report, seal, secret_of, tag_of
from searchveil.crowd.simulate import running
from searchveil.crowd.store import ACCEPTED, REPORT, Store
from searchveil.crowd.tokens import Request, credential
from searchveil.crypto import shamir, voprf
from searchveil.log.demo import write_demo


def oprf(number: int) -> None:
    """Blind evaluations with one proof per batch of 64: by the function alone, and asked of a randomness server."""
    private = voprf.generate()
    batches = [[voprf.blind(os.urandom(16)).element for _ in range(BATCH)] for _ in range(number // BATCH)]
    started, cpu = time.monotonic(), time.process_time()
    for elements in batches:
        voprf.evaluate(private, elements)
    wall, used = time.monotonic() - started, time.process_time() - cpu
    done = BATCH * len(batches)
    print(f"OPRF: {done / wall:,.0f} evaluations/s by the clock, {done / used:,.0f} per CPU second, proofs included")
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as community, httpx.Client(timeout=60) as http:
        listed = read_epochs(http.get(f"{community.randomness}/epochs").json(), community.randomness_signer)
        epoch, known = min(listed.items())
        bodies = []
        for invitation in invite(Path(folder), -(-len(batches) // 200)):
            request = Request.fresh(200)
            shown = {"Authorization": f"Bearer {credential(invitation, 'randomness')}"}
            answer = http.post(f"{community.randomness}/tokens/{epoch}", content=request.body, headers=shown).content
            bodies += request.tokens(bytes.fromhex(known["token"]), answer)
        asked = [token + b"".join(elements) for token, elements in zip(bodies, batches, strict=False)]
        started = time.monotonic()
        with ThreadPoolExecutor(4) as pool:
            url = f"{community.randomness}/evaluate/{epoch}"
            answers = list(pool.map(lambda body: http.post(url, content=body).status_code, asked))
        wall = time.monotonic() - started
        assert set(answers) == {200}
        rate = BATCH * len(asked) / wall
        print(f"OPRF over HTTP, each token recorded durably: {rate:,.0f} evaluations/s by the clock")


def intake(number: int) -> None:
    """Reports made beforehand are sent through one relay process to one server process that keeps them durably."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as community:
        home = Path(folder)
        job = new_job(home / "server.toml", "query", make_policy("FT_u", k=50))
        store = Store(str(home / "server.sqlite"))
        (stored,) = store.jobs()
        assert stored.token_private is not None
        way = [(community.relays[0].number, community.relays[0].key)]
        print(f"making {number:,} reports", flush=True)
        bodies = []
        for _ in range(number // 500):
            some = []
            for _ in range(500):
                nonce = os.urandom(32)
                token = nonce + voprf.output(stored.token_private, nonce)
                report = make_report(job.id, "text", os.urandom(64), 2, 1, token)
                some.append(seal(report.to_bytes(), community.server_key, way))
            bodies.append(b"".join(some))
        before = resource.getrusage(resource.RUSAGE_SELF)
        started = time.monotonic()
        with httpx.Client(timeout=300) as http, ThreadPoolExecutor(4) as pool:
            answers = list(
                pool.map(lambda body: http.post(f"{community.relays[0].url}/reports/1", content=body), bodies)
            )
        seconds = time.monotonic() - started
        taken = sum(list(one.content[::ANSWER_BYTES]).count(ACCEPTED) for one in answers)
        used = resource.getrusage(resource.RUSAGE_SELF)
        sender = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        assert taken == store.count_reports(job.id) == 500 * len(bodies)
        store.close()
    programs = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = programs.ru_utime + programs.ru_stime
    print(
        f"intake: {taken:,} reports in {seconds:.1f} s of wall clock, {taken / seconds:,.0f}/s; the programs used "
        f"{cpu:.1f} CPU seconds from start to end, {taken / cpu:,.0f} reports per CPU second; the sender {sender:.1f}"
    )


def aggregate(number: int, k: int, artifacts: int) -> None:
    """Zipf's law over so many artifacts; true shares of true secrets, in a database as intake leaves it."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(str(Path(folder) / "server.sqlite"))
        policy = make_policy("FT_u", k=k)
        job = Job("bench", "query", policy, 0, "", "", "", 0, 1)
        weights = 1 / np.arange(1, artifacts + 1)
        drawn = np.random.default_rng(1).choice(artifacts, number, p=weights / weights.sum())
        counts = np.bincount(drawn, minlength=artifacts)
        print(f"making {number:,} shares of {np.count_nonzero(counts):,} artifacts", flush=True)
        rows: list[dict[str, bytes | None]] = []
        made = 0
        for i in np.flatnonzero(counts):
            first = make_report(job.id, f"artifact {i}", hashlib.sha512(str(i).encode()).digest(), k, 1, bytes(96))
            secret = _secret(int(i))
            polynomial = shamir.polynomial(secret, k)
            for _ in range(counts[i]):
                x = int.from_bytes(os.urandom(16), "big") or 1
                # Shares of groups that cannot open need not be true: nothing reads them.
                y = shamir.value_at(polynomial, x) if counts[i] >= k else x
                rows.append(
                    {
                        "token": os.urandom(32),
                        "job": job.id,
                        "digest": bytes(32),
                        "grp": first.group,
                        "tag": tag_of(secret),
                        "x": x.to_bytes(16, "big"),
                        "y": int(y).to_bytes(32, "big"),
                        "primary_field": first.primary,
                        "secondary_field": None,
                    }
                )
            if len(rows) > 50_000:
                made += _insert(store, rows)
                rows = []
        made += _insert(store, rows)
        expected = int(np.count_nonzero(counts >= k))
        started, cpu = time.monotonic(), time.process_time()
        found = sum(1 for _ in open_reports(store, job))
        wall, used = time.monotonic() - started, time.process_time() - cpu
        assert (found, made) == (expected, number)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"aggregate: {number:,} reports, k = {k}, {found:,} artifacts opened in {wall:.1f} s of wall clock, "
            f"{used:.1f} CPU seconds, peak memory {peak:.2f} GB (with the making of the shares)"
        )


def simulate(clients: int) -> None:
    """`searchveil crowd simulate` with so many users of a demo log, up to 15 queries each."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.tsv"
        write_demo(str(log), users=clients, seed=1)
        command = [sys.executable, "-m", "searchveil", "crowd", "simulate", str(log), "--clients", str(clients)]
        command += ["--policy", "FT_u", "--per-user", "15", "--k", "5", "--out", str(Path(folder) / "out"), "--json"]
        made = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"simulate: {made['clients']:,} clients, {made['reports']:,} reports, {made['rows']:,} rows in "
        f"{made['seconds']:.0f} s of wall clock; {used.ru_utime + used.ru_stime:.0f} CPU seconds of all programs, peak "
        f"memory of the largest {used.ru_maxrss / 2**20:.2f} GB"
    )


def _secret(i: int) -> bytes:
    return secret_of(hashlib.sha512(str(i).encode()).digest())


def _insert(store: Store, rows: list[dict[str, bytes | None]]) -> int:
    if rows:
        with store.write() as connection:
            connection.execute(sa.insert(REPORT), rows)
    return len(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["oprf", "intake", "aggregate", "simulate"])
    parser.add_argument("--reports", type=int, default=20_000)
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--artifacts", type=int, default=200_000)
    parser.add_argument("--clients", type=int, default=10_000)
    given = parser.parse_args()
    if given.what == "oprf":
        oprf(given.reports)
    elif given.what == "intake":
        intake(given.reports)
    elif given.what == "simulate":
        simulate(given.clients)
    else:
        aggregate(given.reports, given.k, given.artifacts)
