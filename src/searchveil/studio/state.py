"""What a server knows while it runs, and where it keeps what must outlive it."""

import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from searchveil.errors import InputError, SearchveilError, as_option
from searchveil.privacy.budget import Foreseen
from searchveil.privacy.guarantee import Guarantee
from searchveil.privacy.ledger import Ledger, Spent
from searchveil.publish.mechanism import Mechanism
from searchveil.scratch import Scratch
from searchveil.studio import commands, jobs
from searchveil.studio.drafts import NEW, Draft, Drafts
from searchveil.studio.forecast import Forecasts
from searchveil.studio.jobs import Job
from searchveil.studio.places import Places, is_ledger

JSON = as_option("json")
KEPT = ".searchveil-studio"  # in the start folder: the records of releases


@dataclass
class Studio:
    places: Places
    log: str = ""
    ledger: str = ""
    drafts: Drafts = field(default_factory=Drafts)
    forecasts: Forecasts = field(default_factory=Forecasts)
    evaluations: dict[str, Job] = field(default_factory=dict)  # by the folder of the release

    @cached_property
    def _scratch(self) -> Scratch:
        return Scratch()

    @property
    def private(self) -> Path:
        """Where private figures are kept while the server runs."""
        return self._scratch.path

    @property
    def releases(self) -> Path:
        return self.places.root / KEPT

    def new_draft(self) -> Draft:
        draft = self.drafts.new()
        if self.log:
            draft.log = [self.log]
            self.read(draft)
        if self.ledger:
            there = is_ledger(self.places.path(self.ledger, "ledger"))
            draft.budget = {"ledger": self.ledger} if there else {"ledger": NEW, "new_ledger": self.ledger}
        return draft

    def look(self, command: list[str]) -> Job:
        """Run a command whose output is private: it is gone with the server."""
        return jobs.start(self.private, [*command, JSON], self.places.root, {}, outlives=False)

    def read(self, draft: Draft) -> None:
        """Find out how the log is read, unless that is known of this very command."""
        command = commands.inspect(draft, figures=False)
        if draft.read is not None and draft.read.command == [*command, JSON]:
            return
        if draft.read is not None:
            draft.read.stop()
        draft.read = self.look(command) if draft.log else None

    def questions(self, draft: Draft, report: str) -> dict[str, list[str]]:
        """What may be asked about the log itself, as commands; `report` is the page that one of them makes."""
        return {
            "figures": commands.inspect(draft, figures=True),
            "plan": commands.plan_of_log(draft),
            "compare": commands.compare(draft, report),
        }

    def comparison(self, draft: Draft) -> Path:
        return self.private / f"{draft.id}.html"

    def forget(self, draft: Draft, kind: str) -> None:
        job = draft.private.pop(kind, None)
        if job is not None:
            job.stop()

    def forget_old(self, draft: Draft) -> None:
        """What was asked of another log or with other settings is no answer any more."""
        now = self.questions(draft, str(self.comparison(draft)))
        for kind, job in list(draft.private.items()):
            if job.command != [*now[kind], JSON]:
                self.forget(draft, kind)

    def account(self, ledger: str) -> Ledger:
        """By the name that a message then has: the studio runs in the start folder."""
        return Ledger.open(self.places.name(self.places.file(ledger, "ledger")))

    def spent(self, ledger: str) -> Spent:
        return self.account(ledger).spent()

    def foresee(self, draft: Draft, guarantees: list[Guarantee]) -> list[Foreseen]:
        """By the ledger of this draft, or by one like the one that it would make."""
        if draft.ledger != NEW:
            return self.account(draft.ledger).foresee(guarantees)
        self.check_new_ledger(draft)
        with tempfile.TemporaryDirectory(dir=self.private) as place:
            return commands.new_ledger(draft, Path(place) / "planned").foresee(guarantees)

    def check_new_ledger(self, draft: Draft) -> Path:
        path = self.places.path(draft.ledger_file, "new_ledger")
        if path.exists():
            instead = "choose it in the list, or another name"
            raise InputError(f"there is a file {draft.ledger_file} already", parameter="new_ledger", instead=instead)
        if not path.parent.is_dir():
            raise InputError(
                f"there is no folder for {draft.ledger_file}", parameter="new_ledger", instead="name another"
            )
        return path

    def release(self, draft: Draft, mechanism: Mechanism) -> Job:
        """Pay and release, in a process that goes on when this server ends."""
        self.releases.mkdir(mode=0o700, exist_ok=True)
        alone = None
        if draft.ledger_file:
            path = self.places.path(draft.ledger_file, "ledger")
            alone = path.with_name(f".{path.name}.releasing")
        about = {
            "draft": draft.id,
            "log": draft.log,
            "reading": commands.reading(draft),
            "ledger": draft.ledger_file,
            "folder": draft.out,
            "paid_before": self.paid(draft.ledger_file),
            "python": commands.in_python_release(draft, mechanism),
        }
        job = jobs.start(self.releases, [*commands.release(draft), JSON], self.places.root, about, alone=alone)
        draft.runs.append(job)
        return job

    def paid(self, ledger: str) -> list[int]:
        """The entries of a ledger that nothing was written for."""
        if not ledger or not self.places.path(ledger, "ledger").is_file():
            return []
        return [entry.id for entry in self.spent(ledger).entries if entry.status == "reserved"]

    def perhaps_paid(self, job: Job) -> list[int]:
        """Entries that may be those of a job that ended before it could say whether it had paid."""
        ledger = str(job.about["ledger"])
        if job.entry is not None or job.state != "died":
            return []
        told = {one.entry for one in jobs.jobs_in(self.releases) if one.about["ledger"] == ledger}
        try:
            return [entry for entry in self.paid(ledger) if entry not in {*job.about["paid_before"], *told}]
        except SearchveilError:  # the first page says what is wrong with it
            return []

    def run_of(self, folder: str) -> Job | None:
        """The job that made a release folder, if this studio did."""
        made = (job for job in jobs.jobs_in(self.releases) if job.about.get("folder") == folder)
        return next((job for job in made if job.state == "done"), None)

    def close(self) -> None:
        """What looks at the log for a page ends with the pages; a release goes on."""
        self.forecasts.close()
        for job in jobs.jobs_in(self.private):
            job.stop()
        for job in jobs.jobs_in(self.private):
            job.wait(5)
        self._scratch.close()
