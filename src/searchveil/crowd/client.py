"""The client: takes artifacts out of a person's own log and sends them as a job asks, if its owner agrees.

Every step is written down before it is taken, so that a run that was stopped goes on where it was: the same tokens, the
same reports. Nothing is sent twice that would count twice.
"""

import hashlib
import hmac
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from secrets import SystemRandom
from time import sleep, time
from typing import Any

import httpx

from searchveil.crowd.choice import Candidates, candidates, sends
from searchveil.crowd.config import Community, RelayAddress
from searchveil.crowd.jobs import Job, read_job
from searchveil.crowd.own_log import OwnLog
from searchveil.crowd.randomness import BATCH, read_epochs
from searchveil.crowd.relay import ANSWER_BYTES
from searchveil.crowd.report import (
    dummy,
    fresh_number,
    make_report,
    primary_input,
    receipt,
    seal,
    secondary_input,
    share_number,
)
from searchveil.crowd.store import ACCEPTED, REFUSED
from searchveil.crowd.tokens import Request, credential, read_evaluation
from searchveil.crypto import voprf
from searchveil.errors import InputError, printable

ROUNDED_TO = 8  # reports of a run, dummies included: their number shows little
TRIES = 5
MOST_SAID = 300  # letters of what a program says, shown to the owner
SCRYPT_N = 2**17  # 128 MiB and some tenths of a second for each guess of a pass-phrase


class CrowdError(InputError):
    """A program of the community that cannot be reached, or refuses."""


class RefusedError(CrowdError):
    """A program says that the request itself is wrong."""


class TokensTakenError(CrowdError):
    """Another machine of this member took tokens that this one had counted on."""


def user_secret(community: Community, invitation: str, passphrase: str = "") -> bytes:
    """The same on all machines of a member: it follows from the invitation, and from the pass-phrase if there is one.

    The invitation's 128 bits are in the salt, so only who has the invitation can try pass-phrases.
    """
    salt = b"searchveil crowd user v2" + community.signer + invitation.encode()
    return hashlib.scrypt(passphrase.encode(), salt=salt, n=SCRYPT_N, r=8, p=1, maxmem=2**28, dklen=32)


@dataclass(frozen=True)
class Sent:
    """What a run has done: artifacts considered, reports delivered, and those that the server would not take."""

    candidates: int
    reports: int
    refused: int
    beyond: int  # of the log, more than the job takes of a member or this member had tokens left for
    too_long: int


class Client:
    """One member. `clock` gives seconds since 1970.

    `http` sends requests that must be anonymous, `named` those with a credential: on connections of their own.
    """

    def __init__(
        self,
        log: OwnLog,
        community: Community,
        invitation: str,
        secret: bytes,
        *,
        http: httpx.Client | None = None,
        named: httpx.Client | None = None,
        clock: Callable[[], float] = time,
        patience: float = 0.2,
        longest_wait: float = 0,
    ) -> None:
        self.log, self.community, self.secret, self.clock = log, community, secret, clock
        self.invitation, self.patience, self.longest_wait = invitation, patience, longest_wait
        self.http, self.named = http or httpx.Client(timeout=120), named or httpx.Client(timeout=120)
        for one in (self.http, self.named):  # a cookie would tell who asks anonymously
            one.cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))

    # --- jobs ---

    def jobs(self) -> list[Job]:
        """The jobs that are open now and signed by the community; a forged one stops everything."""
        documents = self._get(f"{self.community.server}/jobs")
        if not isinstance(documents, list):
            raise CrowdError(f"{self.community.server} does not answer as it should: this is no list of jobs")
        jobs = [read_job(document, self.community.signer) for document in documents]
        return [job for job in jobs if job.opens <= self.clock() < job.expires]

    def candidates(self, job: Job) -> Candidates:
        """What the job would take, and how much it leaves behind. Shown before consent."""
        return candidates(job, self.log.searches())

    def run(self, job: Job) -> Sent:
        """Do what the job asks, or go on with it. Needs the owner's consent."""
        job.check()
        name = job.id.hex()
        if self.log.paused:
            raise InputError("the log is paused; nothing is sent until it is resumed")
        if self.log.consent(name) != "always":
            raise InputError(f"no consent to job {name}; read it, then answer always")
        if self.log.file.execute("SELECT 1 FROM run WHERE job = ?", (name,)).fetchone() is None:
            self._begin(job)
        try:
            made = self._make_reports(job)
        except TokensTakenError:
            self._forget(job)
            self._begin(job)
            made = self._make_reports(job)
        if made is not None:  # the server knows who has just fetched tokens
            longest = min(self.longest_wait, max(0.0, job.expires - self.clock()))
            sleep(SystemRandom().uniform(0, longest))
        if made == 0:
            self._send_once(job, [], Counter())  # whether the coins let anything through stays hidden on the way
        refused = self._send(job)
        count = self.log.file.execute(
            "SELECT count(*), coalesce(sum(sent), 0) FROM outbox WHERE job = ?", (name,)
        ).fetchone()
        found = self.candidates(job)
        beyond = len(found.taken) + found.beyond - count[0]
        return Sent(count[0], count[1], refused, max(0, beyond), found.too_long)

    def _begin(self, job: Job) -> None:
        """Write down which artifacts are considered. Tokens of other machines of this member count against them."""
        name = job.id.hex()
        url = f"{self.community.server}/tokens/{name}"
        answer = self._get(url, credential(self.invitation, "server"))
        left = answer.get("left") if isinstance(answer, dict) else None
        if not isinstance(left, int) or left < 0:
            raise CrowdError(f"{url} does not say how many tokens are left")
        chosen = self.candidates(job).taken[:left]
        heads = [sends(job, self.secret, one.text) for one in chosen]
        # Whatever the coins show: who hands out these tokens knows the member by name.
        inputs = len(chosen) * (1 if job.secondary_k is None else 2)
        report_tokens = Request.fresh(len(chosen))
        randomness_tokens = Request.fresh(-(-inputs // BATCH))
        with self.log.transaction() as file:
            file.execute(
                "INSERT INTO run VALUES (?, ?, ?, 0)", (name, report_tokens.to_text(), randomness_tokens.to_text())
            )
            file.execute("INSERT OR REPLACE INTO job VALUES (?, ?)", (name, job.text))
            file.executemany(
                "INSERT INTO outbox (job, artifact, typed, heads) VALUES (?, ?, ?, ?)",
                [(name, one.text, job.spelling(one.typed), int(head)) for one, head in zip(chosen, heads, strict=True)],
            )

    def _forget(self, job: Job) -> None:
        """Undo `_begin`, while nothing has been asked of the randomness server."""
        with self.log.transaction() as file:
            for table in ("run", "outbox"):
                file.execute(f"DELETE FROM {table} WHERE job = ?", (job.id.hex(),))

    def _make_reports(self, job: Job) -> int | None:
        """How many were made; None if that was done before."""
        name = job.id.hex()
        if self.log.file.execute("SELECT done FROM run WHERE job = ?", (name,)).fetchone()[0]:
            return None
        rows = self.log.file.execute(
            "SELECT id, artifact, typed, heads FROM outbox WHERE job = ? ORDER BY id", (name,)
        ).fetchall()
        asked = self.log.file.execute(
            "SELECT report_tokens, randomness_tokens FROM run WHERE job = ?", (name,)
        ).fetchone()
        try:
            tokens = self._tokens(f"{self.community.server}/tokens/{name}", "server", asked[0], job.token_key)
        except RefusedError as error:
            raise TokensTakenError(error.text) from error
        outputs = self._outputs(job, [(text, typed) for _, text, typed, _ in rows], asked[1])
        made = []
        for (id, text, typed, heads), token, found in zip(rows, tokens, outputs, strict=True):
            if not heads:
                continue
            x = fresh_number() if job.policy.per_artifact else share_number(self.secret, job.id, text)
            spelling = None if job.secondary_k is None else (typed, found[1], job.secondary_k)
            report = make_report(job.id, text, found[0], job.policy.k, x, token, spelling)
            made.append((report.to_bytes(), id))
        with self.log.transaction() as file:
            file.executemany("UPDATE outbox SET report = ? WHERE id = ? AND heads", made)  # deleted ones are not
            file.execute("UPDATE run SET done = 1, report_tokens = '', randomness_tokens = '' WHERE job = ?", (name,))
        return len(made)

    def _tokens(self, url: str, program: str, asked: str, key: str) -> list[bytes]:
        request = Request.from_text(asked)
        if not request.nonces:
            return []
        answer = self._post(url, request.body, credential(self.invitation, program))
        return request.tokens(bytes.fromhex(key), answer)

    def _outputs(self, job: Job, texts: Sequence[tuple[str, str]], asked: str) -> list[list[bytes]]:
        """The randomness server's output for each artifact and, where the job wants them, for its spelling.

        It is asked about all artifacts, also those that the coins keep back, and always in full batches.
        """
        inputs = [
            one
            for text, typed in texts
            for one in (
                [primary_input(job.id, text)]
                if job.secondary_k is None
                else [primary_input(job.id, text), secondary_input(job.id, text, typed)]
            )
        ]
        if not inputs:
            return []
        listed = read_epochs(self._get(f"{self.community.randomness}/epochs"), self.community.randomness_signer)
        epoch = listed.get(str(job.epoch), {})
        if (epoch.get("oprf"), epoch.get("token")) != (job.randomness_key, job.randomness_token_key):
            raise CrowdError("the job names other keys than the randomness server; nothing was sent")
        tokens = self._tokens(f"{self.community.randomness}/tokens/{job.epoch}", "randomness", asked, epoch["token"])
        outputs: list[bytes] = []
        for token, start in zip(tokens, range(0, len(inputs), BATCH), strict=True):
            some = inputs[start : start + BATCH]
            outputs += self._evaluate(job, token, some)
        per = 1 if job.secondary_k is None else 2
        return [outputs[i : i + per] for i in range(0, len(outputs), per)]

    def _evaluate(self, job: Job, token: bytes, inputs: Sequence[bytes]) -> list[bytes]:
        # What is asked follows from the token and random bytes of this machine, so that a stopped run asks the same
        # question with it. Neither the token, which the randomness server sees, nor the user's secret, which who made
        # the invitation may know, tells the blinds, or what only fills the batch up.
        blinded = [voprf.blind(one, voprf.to_blind(self._drawn(token, i))) for i, one in enumerate(inputs)]
        fillers = [voprf.filler(self._drawn(token, i)) for i in range(len(inputs), BATCH)]
        body = b"".join((token, *(one.element for one in blinded), *fillers))
        answer = self._post(f"{self.community.randomness}/evaluate/{job.epoch}", body)
        key = bytes.fromhex(job.randomness_key)
        return voprf.finalize(key, inputs, blinded, *read_evaluation(answer), fillers)

    def _drawn(self, token: bytes, number: int) -> bytes:
        """64 bytes that nobody else knows, another for each place in a batch."""
        text = b"searchveil crowd blind v1" + token + number.to_bytes(4, "big")
        kept = self.log.get("blinding")
        if kept is None:
            kept = os.urandom(32).hex()
            self.log.set("blinding", kept)
        return hmac.digest(bytes.fromhex(kept), text, "sha512")

    # --- sending ---

    def _send(self, job: Job) -> int:
        """Until every report has a receipt from the server. How many it refused.

        A relay may lie about that, so a refusal is believed when a second relay repeats it, if there is one.
        """
        refusals: Counter[int] = Counter()
        tried: Counter[int] = Counter()
        enough = min(2, len(self.community.relays))
        for attempt in range(TRIES + 1):
            rows = self.log.file.execute(
                "SELECT id, report FROM outbox WHERE job = ? AND NOT sent AND report IS NOT NULL", (job.id.hex(),)
            ).fetchall()
            waiting = [(id, report) for id, report in rows if refusals[id] < enough]
            if not waiting:
                return sum(count >= enough for count in refusals.values())
            if 0 < attempt < TRIES:
                sleep(self.patience * 2**attempt)
            if attempt < TRIES:
                refusals.update(self._send_once(job, waiting, tried))
        raise CrowdError("the relays or the server cannot be reached; run again later, nothing is lost")

    def _way(self, tried: Counter[int]) -> list[RelayAddress]:
        """Relays by chance, of those that were tried least: another way than before, if there is one."""
        draw = SystemRandom()
        relays = sorted(self.community.relays, key=lambda one: (tried[one.number], draw.random()))
        way = relays[: self.community.hops]
        draw.shuffle(way)
        tried.update(one.number for one in way)
        return way

    def _send_once(self, job: Job, waiting: Sequence[tuple[int, bytes]], tried: Counter[int]) -> set[int]:
        """Reports with dummies among them, over a way of its own each time. Those that were refused."""
        mixed: list[tuple[int | None, bytes]] = [*waiting]
        mixed += [(None, dummy(job.id)) for _ in range(-len(waiting) % ROUNDED_TO if waiting else ROUNDED_TO)]
        SystemRandom().shuffle(mixed)
        way = self._way(tried)
        keys = [(one.number, one.key) for one in way]
        refused: set[int] = set()
        for start in range(0, len(mixed), 500):
            some = mixed[start : start + 500]
            body = b"".join(seal(report, self.community.server_key, keys) for _, report in some)
            try:
                answer = self.http.post(f"{way[0].url}/reports/{len(way)}", content=body)
            except httpx.HTTPError:
                continue
            if answer.status_code == 200 and len(answer.content) == len(some) * ANSWER_BYTES:
                refused |= self._note(some, answer.content)
        return refused

    def _note(self, some: Sequence[tuple[int | None, bytes]], answers: bytes) -> set[int]:
        refused = set()
        with self.log.transaction() as file:
            for i, (id, report) in enumerate(some):
                status, shown = answers[i * ANSWER_BYTES], answers[i * ANSWER_BYTES + 1 : (i + 1) * ANSWER_BYTES]
                if id is not None and status == ACCEPTED and shown == receipt(report):
                    file.execute("UPDATE outbox SET sent = 1 WHERE id = ?", (id,))
                elif id is not None and status == REFUSED:
                    refused.add(id)
        return refused

    # --- HTTP ---

    def _get(self, url: str, shown: str | None = None) -> Any:
        answer = self._answer(lambda: self._by(shown).get(url, headers=_authorization(shown)), url)
        try:
            return answer.json()
        except ValueError as error:
            raise CrowdError(f"{url} does not answer as it should: this is no JSON") from error

    def _post(self, url: str, body: bytes, shown: str | None = None) -> bytes:
        return self._answer(lambda: self._by(shown).post(url, content=body, headers=_authorization(shown)), url).content

    def _by(self, shown: str | None) -> httpx.Client:
        return self.http if shown is None else self.named

    def _answer(self, ask: Callable[[], httpx.Response], url: str) -> httpx.Response:
        """Requests can be repeated: the programs know one that they have answered before."""
        trouble = ""
        for attempt in range(TRIES):
            if attempt:
                sleep(self.patience * 2**attempt)
            try:
                answer = ask()
            except httpx.HTTPError as error:
                trouble = type(error).__name__
                continue
            if answer.status_code == 200:
                return answer
            trouble = f"{answer.status_code} {_said(answer)}"
            if answer.status_code == 400:
                raise RefusedError(f"{url} refuses the request: {_said(answer)}")
            if answer.status_code < 500:
                break
        raise CrowdError(f"{url} does not answer as it should: {trouble}")


def _authorization(shown: str | None) -> dict[str, str]:
    """A connection on which a member has shown a credential ends with that."""
    return {} if shown is None else {"Authorization": f"Bearer {shown}", "Connection": "close"}


def _said(answer: httpx.Response) -> str:
    try:
        return printable(str(answer.json().get("error", ""))[:MOST_SAID])
    except (ValueError, AttributeError):
        return ""
