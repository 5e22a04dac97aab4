"""The release folder: what is in it, that it comes back unchanged, and that no fault leaves half of one."""

import csv
import errno
import hashlib
import io
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

import searchveil.publish.folder as folder_module
from searchveil.errors import InputError
from searchveil.privacy.guarantee import Guarantee, Trust
from searchveil.privacy.ledger import Entry, Ledger
from searchveil.publish import card
from searchveil.publish.folder import check_writable, claimed, write_folder
from searchveil.publish.korolova import KorolovaSettings
from searchveil.publish.plan import Plan, Selection
from searchveil.publish.release import Release
from searchveil.publish.zealous import ZealousSettings

DP = Guarantee(
    "approximate",
    1.0,
    1e-6,
    "docs/guarantees/zealous.md#approximate",
    assumed_public=("that the log has users",),
    unprotected=("the time of the release",),
    caveats=("the number of users was not checked",),
)
NOT_DP = Guarantee.no_differential_privacy("docs/guarantees/k-anonymity.md", ("It hides a query among k users.",))
SELECTION = Selection(per_user=5, noise_scale=5.0, threshold=72)
TABLE = pa.table({"query": ["weather", 'say "hi", |pipe|', ""], "count": [104, 72, 80]})
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # for many small folders: no disk to wait for
ODD_TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["", "\\N", "\\", "\\t", "\t", "\n", "\r\n", '"', '""', ",", " a ", "=1+1", "NULL", "\x00", "\u2028", "é", "🔎"]
)


def release(table: pa.Table = TABLE, guarantee: Guarantee = DP, **more: Any) -> Release:
    return Release(
        {"queries": table, **more}, Plan("zealous", "query", ZealousSettings(selection=SELECTION), guarantee)
    )


def paid_release(ledger: Ledger, table: pa.Table = TABLE) -> Release:
    unpaid = release(table)
    return Release(unpaid.tables, unpaid.plan, paid(ledger, unpaid.plan))


def paid(ledger: Ledger, plan: Plan) -> Entry:
    return ledger.reserve(plan.guarantee, method=plan.method, item=plan.item, parameters=plan.parameters)


def large_table() -> pa.Table:
    """Half a megabyte after any compression."""
    return pa.table({"query": [os.urandom(32).hex() for _ in range(16_000)], "count": list(range(16_000))})


def read_back(folder: Path, format: str, name: str = "data") -> list[tuple[Any, ...]]:
    path = folder / f"{name}.{format}"
    match format:
        case "parquet":
            return list(zip(*pq.read_table(path).to_pydict().values(), strict=True))
        case "csv":
            rows = list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))
            return [(text, int(count)) for text, count in rows[1:]]
        case _:
            lines = path.read_bytes().decode().split("\n")
            assert lines.pop() == ""
            rows = [line.split("\t") for line in lines[1:]]
            return [(unescaped(text), int(count)) for text, count in rows]


def unescaped(field: str) -> str | None:
    if field == "\\N":
        return None
    return re.sub(r"\\(.)", lambda found: {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}[found[1]], field)


# What is in it


def test_the_folder_holds_what_it_should(tmp_path: Path) -> None:
    out = write_folder(release(clicks=pa.table({"url": ["a.example"], "count": [90]})), tmp_path / "out")
    cards = {"README.md", "PROOF.md", "croissant.json", "deployment.yaml"}
    assert {path.name for path in out.iterdir()} == {"data.parquet", "clicks.parquet", "guarantee.json", *cards}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_guarantee_is_the_plan_with_date_version_and_checksums(tmp_path: Path) -> None:
    whole = release()
    before = datetime.now(UTC).date()
    out = write_folder(whole, tmp_path / "out")
    record = json.loads((out / "guarantee.json").read_text())
    assert {key: record[key] for key in whole.plan.to_json()} == whole.plan.to_json()
    assert before.isoformat() <= record["date"] <= datetime.now(UTC).date().isoformat()
    assert record["searchveil"]
    digest = hashlib.sha256((out / "data.parquet").read_bytes()).hexdigest()
    assert record["files"] == {"data.parquet": {"sha256": digest, "rows": 3}}


def test_the_card_can_be_read_by_a_lawyer_and_by_a_hub(tmp_path: Path) -> None:
    text = (write_folder(release(), tmp_path / "out") / "README.md").read_text()
    header, body = text.removeprefix("---\n").split("\n---\n", 1)
    assert yaml.safe_load(header) == {
        "license": "other",
        "pretty_name": "Search log release: query by zealous",
        "size_categories": ["n<1K"],
        "configs": [{"config_name": "data", "data_files": "data.parquet", "default": True}],
    }
    for said in (
        str(DP),
        "| query | string |",
        "| count | int64 |",
        "3 rows",
        "factor of at most 2.72",
        "cannot make them more than 73.11 % sure",
        "* that the log has users",
        "* Not protected: the time of the release",
        "* the number of users was not checked",
        "its noisy count reached 72",
        "averages 76.52",  # 72 + 1/(e^(1/5) - 1)
        "How to cite",
    ):
        assert said in body
    assert "{{" not in text
    assert "NOT" not in text


def test_the_card_cannot_be_misread_where_there_is_no_exception(tmp_path: Path) -> None:
    """ "Not protected: nothing" reads as if nothing were protected."""
    whole = Guarantee("approximate", 1.0, 1e-6, "docs/guarantees.md#zealous")
    text = (write_folder(release(guarantee=whole), tmp_path / "whole") / "README.md").read_text()
    assert "the promise covers every row and every number in this folder" in text
    assert "`docs/guarantees.md#zealous` in the source of searchveil" in text
    none = Guarantee.no_differential_privacy(proof="none", caveats=())
    bare = (write_folder(release(guarantee=none), tmp_path / "bare") / "README.md").read_text()
    assert "no row and no number here is protected" in bare
    for shown in (text, bare):
        assert not any(line.strip() in ("* nothing", "* none") for line in shown.splitlines())
    told = yaml.safe_load((tmp_path / "bare" / "deployment.yaml").read_text())["deployment"]["dp_variant"]
    assert "All of them" in told["unprotected_quantities"]


def test_pure_and_replace_one_guarantees_read_right(tmp_path: Path) -> None:
    pure = Guarantee("approximate", 0.5, 0.0, "docs", neighbours="replace-one")
    text = (write_folder(release(guarantee=pure), tmp_path / "out") / "README.md").read_text()
    assert "the user has one certain history rather than another" in text
    assert "game" not in text


def test_a_release_without_differential_privacy_says_so_first(tmp_path: Path) -> None:
    out = write_folder(release(guarantee=NOT_DP), tmp_path / "out")
    body = (out / "README.md").read_text().split("\n---\n", 1)[1]
    top = [line for line in body.splitlines() if line][1]
    assert top == "**This data set is NOT differentially private.** It hides a query among k users."
    assert "NOT" in (out / "deployment.yaml").read_text()
    assert "NOT" in (out / "croissant.json").read_text()
    assert json.loads((out / "guarantee.json").read_text())["guarantee"]["epsilon"] is None


def test_the_expected_count_on_the_card_is_the_true_mean() -> None:
    """Against the definition, by summing the noise's distribution for true counts up to the threshold."""
    scale, threshold = 5.0, 72
    ratio = 2.718281828459045 ** (-1 / scale)
    for true_count in (1, 30, 71, 72):
        noises = range(threshold - true_count, threshold - true_count + 2000)
        weights = [ratio**noise for noise in noises]
        mean = sum(weight * (true_count + noise) for weight, noise in zip(weights, noises, strict=True)) / sum(weights)
        assert f"{mean:.4g}" == "76.52"


def test_fresh_noise_is_not_called_biased(tmp_path: Path) -> None:
    fresh = KorolovaSettings(selection=replace(SELECTION, count_scale=9.0))
    plan = Plan("korolova", "query", fresh, DP)
    text = (write_folder(Release({"data": TABLE}, plan), tmp_path / "out") / "README.md").read_text()
    assert "fresh noise of scale 9" in text
    assert "too high" not in text


def test_parquet_carries_no_luggage(tmp_path: Path) -> None:
    luggage = TABLE.replace_schema_metadata({"pandas": "{}", "user": "alice"})
    luggage = luggage.cast(
        pa.schema([luggage.schema.field(0).with_metadata({"note": "alice"}), luggage.schema.field(1)])
    )
    out = write_folder(release(luggage), tmp_path / "out")
    assert pq.read_metadata(out / "data.parquet").metadata is None
    for path in out.iterdir():
        assert b"alice" not in path.read_bytes()
        assert b"pandas" not in path.read_bytes()


def test_the_deployment_record_has_the_registrys_fields(tmp_path: Path) -> None:
    record = yaml.safe_load((write_folder(release(), tmp_path / "out") / "deployment.yaml").read_text())
    assert {section: set(fields) for section, fields in record.pop("deployment").items()} == {
        "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
        "privacy_loss": {"privacy_unit", "privacy_unit_details", "privacy_parameters"},
        "deployment_model": {"model_name", "actors", "release_type", "data_source_type", "access_type"},
        "accounting": {"composition", "post_processing"},
        "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    }
    assert record == {}


@pytest.mark.parametrize(
    ("guarantee", "variant", "parameters"),
    [
        (DP, "Approximate DP", {"epsilon": 1.0, "delta": 1e-6}),
        (Guarantee("approximate", 0.5, 0.0, "docs"), "Pure DP", {"epsilon": 0.5}),
        (NOT_DP, "None: this release is NOT differentially private", {}),
    ],
)
def test_the_deployment_record_names_the_variant(
    tmp_path: Path, guarantee: Guarantee, variant: str, parameters: dict[str, float]
) -> None:
    out = write_folder(release(guarantee=guarantee), tmp_path / "out")
    record = yaml.safe_load((out / "deployment.yaml").read_text())["deployment"]
    assert record["dp_variant"]["variant_name"] == variant
    assert record["privacy_loss"]["privacy_parameters"] == parameters


@pytest.mark.parametrize(
    ("trust", "model", "words"),
    [
        ("central", "Central", "the publisher holds the whole log and is trusted with it"),
        ("parties", "Distributed", "each party holds the searches of its own users and is trusted with these alone"),
        ("nobody", "Distributed", "nobody but the user holds the searches of a user, and nobody is trusted with them"),
    ],
)
def test_record_card_and_deployment_say_who_is_trusted(tmp_path: Path, trust: Trust, model: str, words: str) -> None:
    out = write_folder(release(guarantee=replace(DP, trust=trust)), tmp_path / "out")
    assert json.loads((out / "guarantee.json").read_text())["guarantee"]["trust"] == trust
    deployed = yaml.safe_load((out / "deployment.yaml").read_text())["deployment"]["deployment_model"]
    assert deployed["model_name"] == model
    assert deployed["actors"].startswith(f"Trusted: {words}; who sees the release: ")
    card = (out / "README.md").read_text()
    assert f"### Who is trusted\n\n{words[0].upper()}{words[1:]}.\n" in card
    assert Release.read(out).guarantee.trust == trust


@pytest.mark.parametrize("format", ["parquet", "csv", "tsv"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # rdflib's own, when it reads JSON-LD
def test_croissant_is_valid_and_leads_to_the_data(tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mlcroissant = pytest.importorskip("mlcroissant")
    connect = socket.socket.connect

    def here_alone(one: socket.socket, address: Any) -> None:
        """The Spark of other tests is talked to meanwhile."""
        if address[0] not in ("127.0.0.1", "localhost"):
            pytest.fail("Croissant needs no network")
        connect(one, address)

    monkeypatch.setattr("socket.socket.connect", here_alone)
    table = pa.table({"query": ["weather", "news"], "count": [104, 72]})
    clicks = pa.table({"query": ["weather"], "urls": [["a.example", "b.example"]]})
    out = write_folder(release(table, clicks=clicks), tmp_path / "out", format)

    dataset = mlcroissant.Dataset(str(out / "croissant.json"))
    assert not dataset.metadata.ctx.issues.errors
    assert not dataset.metadata.ctx.issues.warnings
    assert list(dataset.records("data")) == [
        {"data/query": b"weather", "data/count": 104},
        {"data/query": b"news", "data/count": 72},
    ]
    record = json.loads((out / "croissant.json").read_text())
    assert isinstance(record["@context"], dict), "written out, not a link"
    assert record["conformsTo"][0] == "http://mlcommons.org/croissant/1.1"
    required = "description license name url creator datePublished distribution".split()
    rai = "personalSensitiveInformation dataLimitations dataManipulationProtocol".split()
    assert {*required, *(f"rai:{field}" for field in rai)} <= set(record)
    urls = record["recordSet"][1]["field"][1]
    assert urls.get("isArray", False) == (format == "parquet"), "a list is a list in Parquet and JSON in text"


# That it comes back unchanged


@pytest.mark.slow
@pytest.mark.parametrize("format", ["parquet", "csv", "tsv"])
@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.tuples(ODD_TEXTS, st.integers(-(2**63), 2**63 - 1))))
@example(rows=[(text, 1) for text in ("a\tb\\tc\r\n", "\\N", '"', "", "\x00")])
def test_every_format_returns_the_exact_table(format: str, rows: list[tuple[str, int]]) -> None:
    texts, counts = [row[0] for row in rows], [row[1] for row in rows]
    table = pa.table({"query": pa.array(texts, pa.string()), "count": pa.array(counts, pa.int64())})
    with tempfile.TemporaryDirectory(dir=MEMORY) as parent:
        assert read_back(write_folder(release(table), Path(parent) / "out", format), format) == rows


def test_a_missing_value_differs_from_an_empty_text(tmp_path: Path) -> None:
    table = pa.table({"query": ["", None], "count": [1, None]})
    assert (
        write_folder(release(table), tmp_path / "c", "csv") / "data.csv"
    ).read_text() == '"query","count"\n"",1\n,\n'
    assert (
        write_folder(release(table), tmp_path / "t", "tsv") / "data.tsv"
    ).read_text() == "query\tcount\n\t1\n\\N\t\\N\n"


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_lists_become_json_in_text(tmp_path: Path, format: str) -> None:
    table = pa.table({"session": [["a", "b\t"], None], "count": [1, 2]})
    out = write_folder(release(table), tmp_path / "out", format)
    rows = read_back(out, format)
    assert json.loads(rows[0][0]) == ["a", "b\t"]
    assert rows[1][0] in ("", None)


def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no table format 'xlsx'; there are parquet, csv, tsv"):
        write_folder(release(), tmp_path / "out", "xlsx")


# That no fault leaves half of one


def test_an_existing_output_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "folder", "link"):
        for attempt in (check_writable, lambda path: write_folder(release(), path)):
            with pytest.raises(InputError, match="exists already: choose another"):
                attempt(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link"]
    assert (tmp_path / "file").read_text() == "mine"


def test_an_impossible_place_is_found_out_beforehand(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "missing" / "out", tmp_path / "file" / "out", tmp_path / ("x" * 300)):
        with pytest.raises(InputError) as complaint:
            check_writable(path)
        assert str(path) in str(complaint.value)
        assert "\n" not in str(complaint.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_looking_leaves_no_trace(tmp_path: Path) -> None:
    check_writable(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_place_is_found_out_beforehand(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
    elif not Mount(tmp_path, "ro").works:
        pytest.skip("root may write everywhere, and mounting is not permitted")
    try:
        with pytest.raises(InputError, match=r"cannot be made: (Read-only|Permission)"):
            check_writable(tmp_path / "out")
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", tmp_path], check=True)
        else:
            tmp_path.chmod(0o700)


@pytest.mark.parametrize("intruder", ["file", "full folder", "empty folder"])
def test_what_appears_meanwhile_is_not_overwritten(
    tmp_path: Path, intruder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    render = card.readme

    def intrude(described: Any) -> str:
        if intruder == "file":
            out.write_text("mine")
        else:
            out.mkdir()
        if intruder == "full folder":
            (out / "file").write_text("mine")
        return render(described)

    monkeypatch.setattr(folder_module, "readme", intrude)
    with pytest.raises(InputError, match="appeared while the release was being made and was left as it is"):
        write_folder(release(), out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    left = out.read_text() if intruder == "file" else [path.read_text() for path in out.iterdir()]
    assert left == {"file": "mine", "full folder": ["mine"], "empty folder": []}[intruder]


@pytest.mark.parametrize(
    "fault", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt(), RuntimeError("a bug")]
)
def test_nothing_remains_after_any_fault(tmp_path: Path, fault: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(described: Any) -> Any:
        raise fault

    monkeypatch.setattr(folder_module, "croissant", fail)
    with pytest.raises(InputError if isinstance(fault, OSError) else type(fault)):
        write_folder(release(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


class Mount:
    """A tiny file system in memory, where the test may make one."""

    def __init__(self, place: Path, options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        try:
            self.works = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            self.works = False


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    if not Mount(place, "size=64k").works:
        pytest.skip("mounting is not permitted")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("format", ["parquet", "csv", "tsv"])
def test_a_full_disk_leaves_nothing_and_the_budget_spent(tmp_path: Path, tiny_disk: Path, format: str) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=1, budget_delta=1e-6)
    with pytest.raises(InputError) as complaint:
        paid_release(ledger, large_table()).write(tiny_disk / "out", format=format)
    said = str(complaint.value)
    assert "No space left on device" in said
    assert re.search(r"about [\d,]+ kB needed, \d+ kB free", said)
    assert "budget reserved for it (entry 1) stays spent" in said
    assert "\n" not in said
    assert list(tiny_disk.iterdir()) == []
    (entry,) = ledger.spent().entries
    assert (entry.status, ledger.spent().basic_epsilon) == ("reserved", 1.0)


def test_a_ledger_on_a_full_disk_releases_nothing(tiny_disk: Path) -> None:
    ledger = Ledger.open(tiny_disk / "l.db", budget_epsilon=1, budget_delta=1e-6)
    (tiny_disk / "filler").write_bytes(bytes(shutil.disk_usage(tiny_disk).free))
    with pytest.raises(InputError, match="nothing was released"):
        paid(ledger, release().plan)
    (tiny_disk / "filler").unlink()
    assert ledger.spent().entries == ()
    paid(ledger, release().plan)


def write_under_a_limit(folder: Path, ledger: Path) -> None:
    """Run in a process of its own: files may not grow beyond 64 kB."""
    paid = paid_release(Ledger.open(ledger, budget_epsilon=1, budget_delta=1e-6), large_table())
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
    try:
        paid.write(folder)
    except InputError as complaint:
        print(complaint)


@pytest.mark.slow
def test_a_file_that_may_not_grow_leaves_nothing_and_the_budget_spent(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from test_folder import write_under_a_limit\n"
        "write_under_a_limit(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "disk" / "out"), str(tmp_path / "l.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert "stays spent" in done.stdout
    assert list((tmp_path / "disk").iterdir()) == []
    assert Ledger.open(tmp_path / "l.db").spent().basic_epsilon == 1


def test_a_place_is_claimed_before_anything_is_paid(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with claimed(out):
        with pytest.raises(InputError, match="being made by another process, and nothing was paid") as complaint:
            claimed(out).__enter__()
        assert "\n" not in str(complaint.value)
        write_folder(release(), out)
    with pytest.raises(InputError, match="exists already"):
        claimed(out).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom searchveil.publish.folder import claimed\n"
        "with claimed(Path(sys.argv[1])):\n    print('mine', flush=True)\n    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "out")]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "mine\n"
    with pytest.raises(InputError, match="being made by another process"):
        claimed(tmp_path / "out").__enter__()
    other.kill()
    other.communicate()
    with claimed(tmp_path / "out"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_whoever_finds_the_place_taken_is_told_that_the_budget_is_gone(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=1, budget_delta=1e-6)
    paid = paid_release(ledger)
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match=r"exists already.*the budget reserved for it \(entry 1\) stays spent"):
        paid.write(tmp_path / "out")
    assert paid.write(tmp_path / "elsewhere").exists()


def test_a_written_release_is_noted_in_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget_epsilon=1, budget_delta=1e-6)
    out = paid_release(ledger).write(tmp_path / "out")
    (entry,) = ledger.spent().entries
    assert (entry.status, entry.out) == ("written", str(out))
    assert "ledger" in (out / "deployment.yaml").read_text()


def test_the_card_rounds_what_it_promises_upwards(tmp_path: Path) -> None:
    """e^0.7 = 2.0137…, 1/(1 + e^-0.7) = 66.818… %."""
    promise = Guarantee("approximate", 0.7, 0.00030439473, "docs")
    text = (write_folder(release(guarantee=promise), tmp_path / "out") / "README.md").read_text()
    assert "by a factor of at most 2.02, up to a difference of 0.000305." in text
    assert "with a probability of 0.000305" in text
    assert "more than 66.82 % sure" in text
    assert "(0.7, 0.000304395)-differentially private" in text


@pytest.mark.parametrize("epsilon", [800.0, 1e9])
def test_a_factor_without_a_float_is_called_infinite(tmp_path: Path, epsilon: float) -> None:
    promise = Guarantee("approximate", epsilon, 0.0, "docs")
    text = (write_folder(release(guarantee=promise), tmp_path / "out") / "README.md").read_text()
    assert "by a factor of at most inf." in text
    assert "more than 100 % sure" in text


@pytest.mark.parametrize("unit", ["a user", "a session", "an address-and-agent"])
def test_the_card_writes_the_article_of_the_unit(tmp_path: Path, unit: str) -> None:
    promise = Guarantee("approximate", 1.0, 1e-6, "docs", unit=unit.split()[1])
    text = (write_folder(release(guarantee=promise), tmp_path / "out") / "README.md").read_text()
    assert f"{unit[0].upper()}{unit[1:]} is what the log calls one" in text


def test_all_cards_name_the_unit(tmp_path: Path) -> None:
    promise = Guarantee("approximate", 1.0, 1e-6, "docs", unit="session")
    out = write_folder(release(guarantee=promise), tmp_path / "out")
    for name in ("README.md", "croissant.json", "deployment.yaml"):
        assert "removing one session's whole history" in " ".join((out / name).read_text().split()), name
    text = " ".join((out / "README.md").read_text().split())
    assert "a person with several sessions is several of them, and not protected as one" in text
    assert "user" not in text.split("## What is promised")[1].split("### Taken as public")[0]


def test_a_promise_under_a_condition_is_none_on_the_cards(tmp_path: Path) -> None:
    promise = Guarantee(
        "conditional", 1.0, 1e-6, "docs", unprotected=("the filter",), caveats=("Given the filter, ….",)
    )
    out = write_folder(release(guarantee=promise), tmp_path / "out")
    text = (out / "README.md").read_text()
    assert "**This data set is NOT differentially private.** Given the filter, …." in text
    assert "factor of at most" not in text
    loss = yaml.safe_load((out / "deployment.yaml").read_text())["deployment"]
    assert loss["dp_variant"]["variant_name"].startswith("None")
    assert loss["privacy_loss"]["privacy_parameters"] == {}
    assert json.loads((out / "croissant.json").read_text())["description"].count("NOT") == 1
