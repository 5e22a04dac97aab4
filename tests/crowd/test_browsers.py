"""Which answers a browser shows to whom: the extension's requests, and no web page's."""

import asyncio

import httpx
import pytest
from local import LocalCrowd

CHROMIUM = "chrome-extension://elfngoimchflliifjkccjigekebingme"
FIREFOX = "moz-extension://fdf601a5-5a6c-4cd1-9e07-14200cd3507b"


def ask(crowd: LocalCrowd, program: str, method: str, path: str, headers: dict[str, str]) -> httpx.Response:
    async def run() -> httpx.Response:
        async with httpx.AsyncClient(transport=crowd.network.programs[program], base_url="http://here") as client:
            return await client.request(method, path, headers=headers)

    return crowd.network.do(asyncio.wait_for(run(), 270))


@pytest.mark.parametrize("origin", [CHROMIUM, FIREFOX, "null"])
def test_the_extension_may_read_answers(crowd: LocalCrowd, origin: str) -> None:
    for program, path in (("server", "/jobs"), ("randomness", "/epochs"), ("relay-1", "/reports/1")):
        answer = ask(crowd, program, "GET", path, {"Origin": origin})
        assert answer.headers["access-control-allow-origin"] == origin


def test_the_extension_may_show_a_credential(crowd: LocalCrowd) -> None:
    asked = {
        "Origin": CHROMIUM,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    answer = ask(crowd, "server", "OPTIONS", "/tokens/00", asked)
    assert (answer.status_code, answer.headers["access-control-allow-headers"].split(", ")) == (
        200,
        ["Accept", "Accept-Language", "Authorization", "Content-Language", "Content-Type"],
    )
    assert answer.headers["access-control-allow-credentials"] == "true"


@pytest.mark.parametrize("origin", ["https://page.example", f"{CHROMIUM}.page.example", "https://x.example/?null"])
def test_a_web_page_may_not(crowd: LocalCrowd, origin: str) -> None:
    answer = ask(crowd, "server", "GET", "/jobs", {"Origin": origin})
    assert "access-control-allow-origin" not in answer.headers


def test_who_names_no_origin_is_told_nothing_of_it(crowd: LocalCrowd) -> None:
    assert not [name for name in ask(crowd, "server", "GET", "/jobs", {}).headers if name.startswith("access")]
