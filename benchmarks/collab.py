"""Joint releases: seconds, memory and bytes against the number of items and parties; sums against packed Paillier.

python benchmarks/collab.py                     three parties, 30,000 and 300,000 distinct items in all
python benchmarks/collab.py --sums              the secure sum and the blinding beside the paper's cryptography
python benchmarks/collab.py --rows LOG          rows beside the central release, for every number of colluding parties
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from searchveil.collab.simulate import Simulation
from searchveil.crypto import masks, paillier, pohlig_hellman, ristretto255
from searchveil.engine import open_engine
from searchveil.log.read import read_log

SETTINGS = {"method": "zealous", "item": "query", "per_user": 3, "epsilon": 5.0, "delta": 1e-4, "deadline": 3600.0}
HELD_BY = 5  # users of each shared item


def write_log(path: Path, items: int) -> None:
    """So many distinct queries, a tenth of them shared by five users each; three queries a user."""
    shared = items // 10
    queries = np.concatenate([np.arange(shared, items), np.repeat(np.arange(shared), HELD_BY)])
    np.random.default_rng(1).shuffle(queries)
    texts = pa.array([f"a query of some length {number}" for number in queries])
    pq.write_table(pa.table({"user": pa.array(np.arange(len(queries)) // 3), "query": texts}), path)


def speed(sizes: list[int], parties: int) -> None:
    print(
        f"{'items':>9} {'wall s':>8} {'CPU s':>8} {'blind s':>8} {'sum s':>7} {'MB in all':>10} {'MB memory':>10} rows"
    )
    for items in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.parquet"
            write_log(path, items)
            log = read_log([str(path)], engine=open_engine("duckdb"))
            before = _cpu()
            found = Simulation(parties, SETTINGS | {"collusion": 1}).run(log, Path(folder) / "out")
            cpu = _cpu() - before
            log.engine.close()
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
        blind, summed = found.phases["blind"], found.phases["sum"]
        print(
            f"{items:>9,} {found.seconds:>8.1f} {cpu:>8.1f} {blind:>8.1f} {summed:>7.1f} {found.bytes / 1e6:>10.1f} "
            f"{memory:>10.0f} {found.rows}",
            flush=True,
        )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def sums(counters: int = 10_000, parties: int = 3) -> None:
    """CPU seconds of all parties together."""
    values = [np.random.default_rng(i).integers(0, 1000, counters).astype(np.uint64) for i in range(parties)]
    keys = {me: {other: bytes([min(me, other), max(me, other)]) * 16 for other in range(parties) if other != me}
            for me in range(parties)}  # fmt: skip
    start = time.process_time()
    total = masks.sum_words([masks.mask_words(values[me], me, keys[me], b"benchmark") for me in range(parties)])
    ours = time.process_time() - start

    private = paillier.PrivateKey.generate()
    public = private.public
    start = time.process_time()
    sealed = [[public.encrypt(one) for one in paillier.pack(vector.tolist(), 64, public)] for vector in values]
    gathered = sealed[0]
    for vector in sealed[1:]:
        gathered = [public.add(a, b) for a, b in zip(gathered, vector, strict=True)]
    opened = paillier.unpack([private.decrypt(one) for one in gathered], counters, 64, public)
    theirs = time.process_time() - start
    assert opened == total.tolist()
    print(f"sum of {counters:,} counters, {parties} parties: masks {1000 * ours:.1f} ms, packed Paillier "
          f"{1000 * theirs:.0f} ms, ratio {theirs / ours:.0f} (target ≥ 100)")  # fmt: skip

    scalar, point = ristretto255.random_scalar(), ristretto255.random_point()
    ours = _each(lambda: ristretto255.multiply(scalar, point), 3000)
    key, element = pohlig_hellman.random_key(), pohlig_hellman.hash_to_group(b"x")
    theirs = _each(lambda: pohlig_hellman.encrypt(key, element), 100)
    print(f"blinding: ristretto255 {1 / ours:,.0f}/s, Pohlig-Hellman {1 / theirs:,.0f}/s, ratio {theirs / ours:.0f}")


def _each(work: Callable[[], object], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


def rows(path: str, parties: int) -> None:
    for collusion in range(parties):
        with tempfile.TemporaryDirectory() as folder:
            log = read_log([path], engine=open_engine("duckdb"))
            found = Simulation(parties, SETTINGS | {"collusion": collusion}).run(log, Path(folder) / "out")
            log.engine.close()
        kept = {"collusion": collusion, "rows": found.rows, "central": found.central_rows, "local": found.local_rows}
        print(json.dumps(kept | {"ratio": round(found.central_rows / max(1, found.rows), 2)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", default="30000,300000")
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--sums", action="store_true")
    parser.add_argument("--rows", metavar="LOG")
    given = parser.parse_args()
    if given.sums:
        sums()
    elif given.rows:
        rows(given.rows, given.parties)
    else:
        speed([int(text) for text in given.items.split(",")], given.parties)


if __name__ == "__main__":
    main()
