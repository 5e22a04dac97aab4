"""Who sees what: the claims of docs/collab.md, each looked at in what really arrives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from consortium import Consortium, NoNoise, Outcome
from cryptography.hazmat.primitives.serialization import Encoding
from scipy import stats
from test_collab_faults import Proxy

from searchveil.collab import coordinator as coordinator_module
from searchveil.collab import opening, ring
from searchveil.collab import party as party_module
from searchveil.collab.coordinator import Coordinator
from searchveil.collab.member import Member
from searchveil.collab.messages import Header, unpack
from searchveil.crypto import masks, ristretto255
from searchveil.privacy.noise import Source

FALSE_ALARM = 1e-6

Seen = list[tuple[str, str, str, bytes]]  # sender, phase, topic, content as the recipient reads it


def watched(party: Member) -> Seen:
    seen: Seen = []
    honest = party.link._fetch

    def fetch(sender: str) -> tuple[Header, bytes]:
        header, payload = honest(sender)
        seen.append((sender, header.phase, header.topic, payload))
        return header, payload

    party.link._fetch = fetch  # type: ignore[method-assign]
    return seen


def run_watched(
    consortium: Consortium, logs: Mapping[str, Any], noises: Mapping[str, Any]
) -> tuple[Outcome, dict[str, Seen]]:
    parties = {name: consortium.party(name, logs[name], noise=noises[name]) for name in consortium.names}
    seen = {name: watched(party) for name, party in parties.items()}
    outcome = consortium.run(logs, parties=parties)
    assert outcome.failed == {}
    return outcome, seen


def of(seen: Seen, phase: str, topic: str | None = None) -> bytes:
    return b"".join(content for _, p, t, content in seen if p == phase and topic in (None, t))


@dataclass(frozen=True)
class Padded(NoNoise):
    """Fixed numbers of dummies and of filling points, so that sizes can be compared."""

    points: int = 0
    filling: int | None = None
    asked: list[int] = field(default_factory=list)

    def dummies(self, source: Source) -> int:
        self.asked.append(0)
        return self.points if len(self.asked) == 1 or self.filling is None else self.filling


LOGS_1 = {
    "a": {f"a{i}": ["weather", "mine"] for i in range(3)},
    "b": {f"b{i}": ["weather", f"secret {i}"] for i in range(3)},
    "c": {f"c{i}": [f"other {i}"] for i in range(4)},
}
LOGS_2 = {  # other texts, other counts, as many items
    "a": LOGS_1["a"],
    "b": {f"b{i}": ["maps", f"private {i % 3}"] for i in range(9)},
    "c": {f"c{i}": [f"{i % 4} else"] for i in range(12)},
}


def forced_totals(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Totals drawn from the same law in both worlds, whatever was counted: parties agree on what they add."""
    honest = masks.mask_words

    def mask_words(values: Any, me: int, keys: Any, label: bytes) -> Any:
        wanted = np.random.default_rng(seed).integers(-9, 1, len(values)) if me == 0 else np.zeros(len(values))
        return honest(wanted.astype(np.int64).view(np.uint64), me, keys, label)

    monkeypatch.setattr(masks, "mask_words", mask_words)


@pytest.mark.slow
def test_a_partys_view_does_not_depend_on_the_others_beyond_the_noisy_totals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two worlds with the same totals and sizes: the messages have the same shape, and their bytes the same law.

    The sizes are the same where the dummies make up for what differs: b has one item in common with a in the first
    world alone, and so one more of its own in the second.
    """
    forced_totals(monkeypatch, 1)
    views = []
    worlds = [(LOGS_1, Padded(points=401, filling=400)), (LOGS_2, Padded(points=400, filling=401))]
    for number, (logs, of_b) in enumerate(worlds):
        (tmp_path / str(number)).mkdir()
        consortium = Consortium(tmp_path / str(number))
        noises = {name: Padded(points=400) for name in consortium.names} | {"b": of_b}
        views.append(run_watched(consortium, logs, noises)[1]["a"])
    shapes = [[(sender, phase, topic, len(content)) for sender, phase, topic, content in view] for view in views]
    assert shapes[0] == shapes[1]
    for phase, topic in (("blind", None), ("universe", "union"), ("sum", "totals")):
        first, second = (np.frombuffer(of(view, phase, topic), np.uint8) for view in views)
        if phase == "blind":  # the lowest and highest bit of a point are always 0
            first, second = first.reshape(-1, 32)[:, 1:31].ravel(), second.reshape(-1, 32)[:, 1:31].ravel()
        if topic == "union":  # sorted: the first bytes are not uniform
            first, second = first.reshape(-1, 16)[:, 4:].ravel(), second.reshape(-1, 16)[:, 4:].ravel()
        both = np.array([np.bincount(one, minlength=256) for one in (first, second)])
        assert both.sum() > 10_000
        assert stats.chi2_contingency(both).pvalue > FALSE_ALARM
        for counts in both:
            assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.slow
def test_two_numbers_of_dummies_hide_how_many_items_are_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one number, the length of b's list and the size of the union would tell exactly how many a has as well."""

    class Numbered(Padded):
        def dummies(self, source: Source) -> int:
            drawn.append(10 ** len(drawn))
            return drawn[-1]

    drawn: list[int] = []
    sent: list[int] = []
    honest = coordinator_module.united

    def united(lists: list[bytes]) -> bytes:
        sent.extend(map(len, lists))
        return honest(lists)

    monkeypatch.setattr(coordinator_module, "united", united)
    consortium = Consortium(tmp_path, 2)
    logs = {name: LOGS_1[name] for name in "ab"}
    _, seen = run_watched(consortium, logs, {"a": Padded(points=0), "b": Numbered()})
    items = len({query for queries in logs["b"].values() for query in queries})
    assert drawn == [1, 10]
    assert len(of(seen["a"], "blind", "b")) // 32 == items + 11
    assert sent[1] // 16 == items + 1  # the filling went around the ring, and no further


@pytest.mark.slow
def test_ids_of_two_runs_have_nothing_in_common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = ids_that_arrive(monkeypatch)
    consortium = Consortium(tmp_path)
    for run in range(2):
        outcome = consortium.run(LOGS_1, of_party=lambda name: {"noise": NoNoise()})
        assert outcome.failed == {}
        for name in consortium.names:
            (tmp_path / f"out-{name}").rename(tmp_path / f"run-{run}-{name}")
    first, second = seen[:3], seen[3:]
    assert len(first[0] & first[1]) == 1  # the coordinator does see the overlap of a and b within a run: "weather"
    assert not set().union(*first) & set().union(*second)


@pytest.mark.slow
def test_no_hop_can_match_points_with_guesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knows all texts, and even the secret scalars of all parties, finds none of them in what passes by."""
    scalars, seen = run_with_known_scalars(Consortium(tmp_path), monkeypatch)
    assert not any(matches(name, seen, scalars) for name in "abc")


@pytest.mark.slow
def test_without_the_fresh_factor_the_same_guesses_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack works where ρ is 1: the test above can fail."""
    one = (1).to_bytes(32, "little")
    honest = ring._send_own
    monkeypatch.setattr(
        ring, "_send_own", lambda link, after, items, order, rho: honest(link, after, items, order, one)
    )
    monkeypatch.setattr(ristretto255, "inverse", lambda rho: one)
    scalars, seen = run_with_known_scalars(Consortium(tmp_path), monkeypatch)
    assert all(matches(name, seen, scalars) for name in "abc")


def run_with_known_scalars(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[bytes], dict[str, Seen]]:
    scalars: list[bytes] = []
    honest = ristretto255.product

    def product(of_rho: bytes, scalar: bytes) -> bytes:
        scalars.append(scalar)
        return honest(of_rho, scalar)

    monkeypatch.setattr(ristretto255, "product", product)
    _, seen = run_watched(consortium, LOGS_1, {name: NoNoise() for name in consortium.names})
    assert len(scalars) == len(consortium.names)
    return scalars, seen


def matches(name: str, seen: Mapping[str, Seen], scalars: list[bytes]) -> bool:
    """Whether a point that this party saw is H(x), or H(x) times one scalar, for a text x of anybody."""
    texts = {query for log in LOGS_1.values() for queries in log.values() for query in queries}
    guesses = {ristretto255.hash_to_group(opening.encoded([text]), ring.TAG) for text in texts}
    guesses |= {ristretto255.multiply(scalar, point) for scalar in scalars for point in set(guesses)}
    points = of([one for one in seen[name] if one[2] != name], "blind")
    return any(points[i : i + 32] in guesses for i in range(0, len(points), 32))


@pytest.mark.slow
def test_the_coordinator_can_match_ids_with_guesses_only_if_it_has_the_scalars_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows all texts. With the scalars of all parties but one it finds nothing; with all of them, everything."""
    lists = ids_that_arrive(monkeypatch)
    scalars, _ = run_with_known_scalars(Consortium(tmp_path), monkeypatch)
    texts = {query for log in LOGS_1.values() for queries in log.values() for query in queries}
    there = set().union(*lists)
    for known in range(len(scalars) + 1):
        points = [ristretto255.hash_to_group(opening.encoded([text]), ring.TAG) for text in texts]
        for scalar in scalars[:known]:
            points = [ristretto255.multiply(scalar, point) for point in points]
        guessed = {ring.id_of(point) for point in points}
        assert len(guessed & there) == (len(texts) if known == len(scalars) else 0)


@pytest.mark.slow
def test_a_party_with_the_coordinator_matches_what_it_claims_to_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/collab.md says: one point of its own list for each guess, and then who has it. No claim, no match."""
    lists = ids_that_arrive(monkeypatch)
    honest = {f"a{i}": ["weather", "mine"] for i in range(3)}
    for number, a in enumerate([honest, honest | {"a9": ["secret 1", "no such"]}]):
        consortium = Consortium(tmp_path / f"{number}")
        noise = Padded(points=0)
        assert consortium.run(LOGS_1 | {"a": a}, of_party=lambda name: {"noise": noise}).failed == {}  # noqa: B023
        claimed, of_b, of_c = lists[-3:]
        assert len(claimed & of_b) == 1 + number  # "weather", and "secret 1" once a claims it
        assert not claimed & of_c


@pytest.mark.slow
def test_guesses_among_the_filling_points_tell_a_liar_who_has_an_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/collab.md says, noticed by nobody: b finds a's item, and c's, in the union."""
    guesses = ["mine", "other 2", "no such"]
    honest, tried = ring.blinded_ids, dict[str, bytes]()

    def guessing(link: Any, items: list[bytes], dummies: int, filling: int, source: Source) -> Any:
        if link.name != "b":
            return honest(link, items, dummies, filling, source)
        more = [opening.encoded([guess]) for guess in guesses]
        ids, of_dummies, points = honest(link, [*items, *more], dummies, filling - len(more), source)
        tried.update(zip(guesses, ids[len(items) :].tolist(), strict=True))
        return ids[: len(items)], of_dummies, points

    monkeypatch.setattr(party_module, "blinded_ids", guessing)
    consortium = Consortium(tmp_path)
    _, seen = run_watched(consortium, LOGS_1, {name: Padded(points=9) for name in consortium.names})
    union = of(seen["b"], "universe", "union")
    there = {union[i : i + 16].rstrip(b"\x00") for i in range(0, len(union), 16)}
    assert [one for one in guesses if tried[one] in there] == ["mine", "other 2"]


def test_a_party_that_adds_to_all_counts_publishes_everything(tmp_path: Path) -> None:
    """Nothing holds against a liar, as docs/collab.md and the record say."""

    class Liar(NoNoise):
        def shares(self, n: int, source: Source) -> Any:
            return super().shares(n, source) + 1000

    consortium = Consortium(tmp_path)
    noises = {name: NoNoise(threshold=50) for name in "ac"} | {"b": Liar(threshold=50)}
    outcome, _ = run_watched(consortium, LOGS_1, noises)
    assert set(outcome.tables["c"]) == {
        query for log in LOGS_1.values() for queries in log.values() for query in queries
    }
    (said,) = (caveat for caveat in outcome.joined["c"].release.guarantee.caveats if "follow the protocol" in caveat)
    assert "it can let every item of every party be published" in said


@pytest.mark.slow
def test_who_listens_on_the_line_reads_no_name_and_no_text(tmp_path: Path) -> None:
    """Everything between party a and the coordinator: no certificate, no name, no word of what is sent."""
    consortium = Consortium(tmp_path, 2)
    proxy = Proxy(consortium.address)
    logs = {name: {f"{name}{i}": ["weather of tomorrow"] for i in range(20)} for name in "ab"}
    parties = {name: consortium.party(name, logs[name]) for name in "ab"}
    parties["a"].link.address = proxy.address
    parties["a"].link._client = parties["a"].link._new_client()
    assert consortium.run(logs, parties=parties).failed == {}
    heard = b"".join(proxy.heard)
    assert len(heard) > 10_000
    der = [one.certificate.parsed.public_bytes(Encoding.DER) for one in consortium.identities.values()]
    for secret in (b"weather", b"coordinator", b"/v1/", b'"phase"', *der, *(one[40:60] for one in der)):
        assert secret not in heard


def ids_that_arrive(monkeypatch: pytest.MonkeyPatch) -> list[set[bytes]]:
    """Of each party in turn, as the coordinator sees them."""
    seen: list[set[bytes]] = []
    honest = coordinator_module.united

    def united(lists: list[bytes]) -> bytes:
        seen.extend({raw[i : i + 16] for i in range(0, len(raw), 16)} for raw in lists)
        return honest(lists)

    monkeypatch.setattr(coordinator_module, "united", united)
    return seen


@pytest.mark.slow
def test_the_coordinator_reads_no_total_and_no_text_that_did_not_pass(tmp_path: Path) -> None:
    """Everything that reaches it: no text, no count vector, nothing that parties send each other in the clear."""
    stored: list[bytes] = []

    class Curious(Coordinator):
        def _store(self, header: Header, message: bytes) -> None:
            stored.append(message)
            super()._store(header, message)

    consortium = Consortium(tmp_path)
    logs = {name: {f"{name}{i}": ["weather", f"zebra {name} {i}"] for i in range(40)} for name in "abc"}
    outcome = consortium.run(
        logs, coordinator=Curious(consortium.identities["coordinator"], consortium.coordinator().run)
    )
    assert outcome.failed == {}
    assert not any(b"zebra" in message or b"weather" in message for message in stored)
    topics = {(header.phase, header.topic) for header, _, _ in map(unpack, stored) if header.recipient == "coordinator"}
    assert topics == {("universe", "ids"), ("open", "shares")}
    totals = [payload for header, _, payload in map(unpack, stored) if header.topic == "totals"]
    counts = np.bincount(np.frombuffer(b"".join(totals), np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_opening_tells_neither_who_nor_how_many_held_an_item() -> None:
    """The sums for one holder and for three are the same but for a uniform factor."""
    parts = opening.parts_for(100)
    for holders in (1, 3):
        sums = masks.sum_elements([opening.elements_of(b'["weather"]', parts) for _ in range(holders)])
        assert opening.opened(sums) == b'["weather"]'
    drawn = [opening.elements_of(b"x", parts)[0] * 256 // masks.FIELD for _ in range(20_000)]
    assert stats.chisquare(np.bincount(drawn, minlength=256)).pvalue > FALSE_ALARM
    assert opening.opened(opening.nothing(parts)) is None
    mixed = masks.sum_elements([opening.elements_of(b"one", parts), opening.elements_of(b"two", parts)])
    with pytest.raises(ValueError, match="not the same"):
        opening.opened(mixed)


@pytest.mark.slow
def test_a_transcript_has_no_private_value(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path)
    logs = {name: {f"user-{name}{i}": ["weather", f"zebra {i}"] for i in range(9)} for name in "abc"}
    outcome = consortium.run(logs, of_party=lambda name: {"transcript": tmp_path / f"{name}.jsonl"})
    assert outcome.failed == {}
    for name in consortium.names:
        written = (tmp_path / f"{name}.jsonl").read_text()
        assert '"phase": "blind"' in written
        assert not any(word in written for word in ("weather", "zebra", "user-"))
