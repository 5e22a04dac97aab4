"""A relay strips the sender, mixes what it holds and keeps nothing; bodies that drip in are given up."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from local import LocalCrowd
from starlette.exceptions import HTTPException

from searchveil import bodies
from searchveil.crowd import relay as module
from searchveil.crowd.choice import sends
from searchveil.crowd.client import Client
from searchveil.crowd.policy import make_policy
from searchveil.crowd.relay import ANSWER_BYTES, Relay, relay_app
from searchveil.crowd.report import SEALED_BYTES, dummy, receipt, seal
from searchveil.crowd.store import REFUSED, RETRY
from searchveil.crypto import hpke
from searchveil.errors import InputError


def test_reports_of_several_senders_leave_together_in_another_order() -> None:
    private, public = hpke.generate()
    server_private, server_public = hpke.generate()
    forwarded: list[httpx.Request] = []

    async def server(request: httpx.Request) -> httpx.Response:
        forwarded.append(request)
        blobs = [request.content[i : i + SEALED_BYTES] for i in range(0, len(request.content), SEALED_BYTES)]
        opened = [hpke.unseal(server_private, b"searchveil crowd report v1", b"", blob) for blob in blobs]
        return httpx.Response(200, content=b"".join(b"\0" + receipt(one) for one in opened))

    reports = [[dummy(bytes(16)) for _ in range(20)] for _ in range(3)]

    async def play() -> list[bytes]:
        relay = Relay(
            private, {0: "http://server"}, hold_seconds=60, at_least=60, transport=httpx.MockTransport(server)
        )
        app = relay_app(relay)
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app, client=("203.0.113.7", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://relay") as senders:
                bodies = [b"".join(seal(one, server_public, [(1, public)]) for one in some) for some in reports]
                headers = {"User-Agent": "of this member", "X-Forwarded-For": "203.0.113.7", "Cookie": "me=1"}
                sent = [senders.post("/reports/1", content=body, headers=headers) for body in bodies]
                return [answer.content for answer in await asyncio.gather(*sent)]

    answers = asyncio.run(play())
    # Everybody got the answers to her own reports, in her own order.
    for some, answer in zip(reports, answers, strict=True):
        shown = [answer[i * ANSWER_BYTES + 1 : (i + 1) * ANSWER_BYTES] for i in range(len(some))]
        assert shown == [receipt(one) for one in some]
    (request,) = forwarded
    assert not {"cookie", "x-forwarded-for"} & set(request.headers)
    assert "of this member" not in str(request.headers)
    blobs = [request.content[i : i + SEALED_BYTES] for i in range(0, len(request.content), SEALED_BYTES)]
    opened = [hpke.unseal(server_private, b"searchveil crowd report v1", b"", blob) for blob in blobs]
    flat = [one for some in reports for one in some]
    assert sorted(opened) == sorted(flat)
    assert opened != flat


def test_many_reports_of_one_sender_wait_for_those_of_others() -> None:
    """However many: passed on at once they would be mixed with nobody's."""
    private, public = hpke.generate()
    to_server = hpke.generate()[1]
    sizes: list[int] = []

    async def server(request: httpx.Request) -> httpx.Response:
        sizes.append(len(request.content) // SEALED_BYTES)
        return httpx.Response(503)

    def body(number: int) -> bytes:
        return b"".join(seal(dummy(bytes(16)), to_server, [(1, public)]) for _ in range(number))

    async def play() -> None:
        relay = Relay(private, {0: "http://server"}, hold_seconds=60, at_least=5)
        async with httpx.AsyncClient(transport=httpx.MockTransport(server)) as relay.client:
            first = asyncio.create_task(relay.take(1, body(8)))
            while sum(map(len, relay.waiting.values())) < 8:
                await asyncio.sleep(0.001)
            assert sizes == []
            await asyncio.gather(first, relay.take(1, body(1)))

    asyncio.run(asyncio.wait_for(play(), 280))
    assert sizes == [9]


def test_a_member_whose_coins_all_show_tails_sends_as_much_as_others(crowd: LocalCrowd) -> None:
    """On the way nobody sees whether anything true is among what is sent."""
    job = crowd.job(make_policy("ST_u", epsilon=1, delta=1e-6, p=1e-9))
    before = len(crowd.network.seen)
    assert crowd.run(crowd.member("a", ["x"]), job).reports == 0
    sizes = [len(body) for host, _, body in crowd.network.seen[before:] if host == "relay-1"]
    assert sizes == [8 * (SEALED_BYTES + 49)]
    assert crowd.server.store.count_reports(job.id) == 0


def test_the_randomness_server_is_asked_the_same_whatever_the_coins_show(crowd: LocalCrowd) -> None:
    """It knows by name who fetches tokens: their number, and that of evaluations, must not follow the coins."""
    seen: dict[int, list[tuple[str, str, int]]] = {}
    for heads, p in ((0, 1e-9), (1, 0.5)):
        job = crowd.job(make_policy("ST_u", epsilon=1, delta=1e-6, p=p))
        secret = next(one for one in (bytes([i]) * 32 for i in range(256)) if sends(job, one, "x") == bool(heads))
        before = len(crowd.network.seen)
        assert crowd.run(crowd.member(str(heads), ["x"], secret=secret), job).reports == heads
        seen[heads] = [
            (host, path.replace(job.id.hex(), "JOB"), len(body)) for host, path, body in crowd.network.seen[before:]
        ]
    assert seen[0] == seen[1]
    (asked,) = [size for _, path, size in seen[0] if path.startswith("/evaluate")]
    assert asked == 96 + 64 * 32


def test_a_connection_that_has_seen_a_credential_is_used_for_nothing_else(crowd: LocalCrowd) -> None:
    """Neither afterwards nor before: in the pool it would follow what was asked without a name."""
    job = crowd.job(make_policy("FT_u", k=2))
    anonymous: list[httpx.Request] = []
    named: list[httpx.Request] = []
    client = crowd.member("a", ["x"])
    client.http, client.named = (
        httpx.Client(transport=crowd.network, event_hooks={"request": [seen.append]}) for seen in (anonymous, named)
    )
    crowd.run(client, job)
    client.http.close()
    client.named.close()
    assert len(named) == 3
    assert all("authorization" in one.headers for one in named)
    assert {one.headers["connection"] for one in named} == {"close"}
    assert not any("authorization" in one.headers or "close" in one.headers["connection"] for one in anonymous)


def test_no_cookie_tells_who_asks_without_a_name(crowd: LocalCrowd) -> None:
    """A program that knows a member by name sets one, and would get it back with what must be anonymous."""
    job = crowd.job(make_policy("FT_u", k=2))
    client = crowd.member("a", ["x"])
    cookies: list[str | None] = []

    def marking(request: httpx.Request) -> httpx.Response:
        cookies.append(request.headers.get("cookie"))
        answer = crowd.network.handle_request(request)
        answer.headers["Set-Cookie"] = "member=a; Path=/"
        return answer

    http = httpx.Client(transport=httpx.MockTransport(marking))
    marked = Client(client.log, client.community, client.invitation, client.secret, http=http, named=http)
    marked.clock = client.clock
    assert crowd.run(marked, job).reports == 1
    http.close()
    assert len(cookies) > 6
    assert set(cookies) == {None}


@pytest.mark.parametrize(
    "answer", [b"", b"nonsense", b"{}", b'{"left": "x"}', b'{"left": -1}', b"[1]", b'{"epochs": 1}']
)
@pytest.mark.parametrize("path", ["/jobs", "/tokens", "/epochs"])
def test_an_answer_that_is_none_is_told(crowd: LocalCrowd, path: str, answer: bytes) -> None:
    job = crowd.job(make_policy("FT_u", k=2))
    client = crowd.member("a", ["x"])

    def lying(request: httpx.Request) -> httpx.Response:
        if request.method == "GET" and request.url.path.startswith(path):
            return httpx.Response(200, content=answer)
        return crowd.network.handle_request(request)

    client.http = client.named = httpx.Client(transport=httpx.MockTransport(lying))
    with pytest.raises(InputError):
        crowd.run(client, job)
    client.http.close()


def test_what_a_program_says_is_shown_as_text(crowd: LocalCrowd) -> None:
    client = crowd.member("a", ["x"])
    said = {"error": "\x1b]0;you were cut off\x07" + "x" * 10_000}
    client.http = httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(401, json=said)))
    with pytest.raises(InputError) as refused:
        client.jobs()
    client.http.close()
    told = str(refused.value)
    assert "you were cut off" in told
    assert "\x1b" not in told
    assert len(told) < 1_000


def test_reports_on_their_way_count_as_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A next hop that hangs must not let a relay hold more and more; once it has answered, there is room again."""
    monkeypatch.setattr(module, "MOST_WAITING", 100)
    private, public = hpke.generate()
    body = b"".join(seal(dummy(bytes(16)), hpke.generate()[1], [(1, public)]) for _ in range(40))

    async def play() -> tuple[list[object], int]:
        answered = asyncio.Event()

        async def hanging(request: httpx.Request) -> httpx.Response:
            await answered.wait()
            return httpx.Response(503)

        relay = Relay(private, {0: "http://server"}, hold_seconds=0.01, at_least=20)
        async with httpx.AsyncClient(transport=httpx.MockTransport(hanging)) as relay.client:
            asked = [asyncio.create_task(relay.take(1, body)) for _ in range(5)]
            while relay.held < 80 or relay.waiting or sum(one.done() for one in asked) < 3:
                await asyncio.sleep(0.001)
            answered.set()
            return await asyncio.gather(*asked, return_exceptions=True), relay.held

    answers, held = asyncio.run(asyncio.wait_for(play(), 280))
    refused = [one for one in answers if isinstance(one, HTTPException)]
    assert [one.status_code for one in refused] == [503] * 3
    assert {one[::ANSWER_BYTES] for one in answers if isinstance(one, bytes)} == {bytes([RETRY]) * 40}
    assert held == 0


def test_a_client_waits_between_its_tokens_and_its_reports(crowd: LocalCrowd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another time for each run; a run that goes on later does not wait again."""
    waits: list[tuple[float, list[str]]] = []
    job = crowd.job(make_policy("FT_u", k=2))
    monkeypatch.setattr(
        "searchveil.crowd.client.sleep",
        lambda seconds: waits.append((seconds, [path for _, path, _ in crowd.network.seen])),
    )
    for name in "abc":
        client = crowd.member(name, ["x"])
        client.longest_wait = 1000.0
        crowd.network.seen.clear()
        crowd.run(client, job)
        crowd.run(client, job)
    assert len({seconds for seconds, _ in waits}) == len(waits) == 3
    assert all(0 <= seconds <= 1000 for seconds, _ in waits)
    for _, paths in waits:
        assert any(path.startswith("/tokens") for path in paths)
        assert not any(path.startswith("/reports") for path in paths)


def test_a_relay_that_pretends_refusals_is_gone_round(tmp_path: Path) -> None:
    """One of two relays answers "refused" and forwards nothing: everything arrives by the other one."""
    crowd = LocalCrowd(tmp_path, relays=2)

    async def liar(scope: Any, receive: Any, send: Any) -> None:
        size = 0
        while (message := await receive())["type"] == "http.request":
            size += len(message["body"])
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        refused = bytes([REFUSED]) + bytes(ANSWER_BYTES - 1)
        await send({"type": "http.response.body", "body": refused * (size // (SEALED_BYTES + 49))})

    crowd.network.programs["relay-1"].app = liar
    job = crowd.job(make_policy("FT_u", k=2))
    used: set[str] = set()
    for i in range(40):  # a client tries one of the two by chance
        sent = crowd.run(crowd.member(str(i), ["x", "y"]), job)
        assert (sent.reports, sent.refused) == (2, 0)
        used = {host for host, path, _ in crowd.network.seen if path == "/reports/1"}
        if "relay-1" in used:
            break
    assert used == {"relay-1", "relay-2"}
    # What every relay says is refused is refused.
    late = crowd.member("late", ["x"])
    late.log.set_consent(job.id.hex(), "always")
    late._begin(job)
    late._make_reports(job)
    crowd.server.store.close_job(job.id)
    sent = late.run(job)
    assert (sent.reports, sent.refused) == (0, 1)
    crowd.close()


def test_a_relay_leaves_no_file(crowd: LocalCrowd) -> None:
    before = {path.name for path in crowd.home.iterdir()}
    job = crowd.job(make_policy("FT_u", k=2))
    crowd.run(crowd.member("a", ["x"]), job)
    new = {path.name for path in crowd.home.iterdir()} - before
    assert not [name for name in new if "relay" in name]


def test_a_body_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SLOWEST_BODY", 0.05)

    class Slow:
        async def stream(self) -> AsyncIterator[bytes]:
            yield b"x"
            await asyncio.sleep(10)

    with pytest.raises(HTTPException) as refused:
        asyncio.run(bodies.read_body(Slow(), 100))  # type: ignore[arg-type]
    assert refused.value.status_code == 408
