"""docs/run-a-crowd.md, line by line: its commands over TLS with an authority of our own, and its systemd units."""

import configparser
import datetime
import ipaddress
import json
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from forked import fork_server
from test_cli_crowd import firefox_history

from searchveil.crowd.simulate import ENDS_WITHIN, wait_for
from searchveil.ports import KeptPorts

PAGE = (Path(__file__).parents[2] / "docs" / "run-a-crowd.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in FENCE.findall(PAGE) if name == language]


def certificate(name: str, folder: Path, issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None = None) -> tuple:  # type: ignore[type-arg]
    """A certificate and its key as PEM files; of an authority, unless there is an issuer."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    by, signer = issuer or (subject, key)
    places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder(by, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(places), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    (folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / f"{name}-key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    return subject, key


@contextmanager
def programs(lines: list[str], folder: Path, env: dict[str, str], urls: dict[str, str]) -> Iterator[None]:
    """Each as a process of its own, as a host would start it."""
    processes = []
    try:
        for line in lines:
            processes.append(subprocess.Popen([sys.executable, "-m", *shlex.split(line)], cwd=folder, env=env))
        for line, process in zip(lines, processes, strict=True):
            wait_for(urls[Path(shlex.split(line)[-1]).stem], process)
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(ENDS_WITHIN)


@pytest.mark.slow
def test_the_commands_of_the_page_run_over_tls(tmp_path: Path) -> None:
    names = {"server": "crowd.example:8700", "randomness": "dice.example:8701"}
    names |= {f"relay-{i}": f"relay-{letter}.example:8710" for i, letter in ((1, "a"), (2, "b"))}
    ports = KeptPorts(4)
    urls = {name: f"https://localhost:{port}" for name, port in zip(names, ports.numbers, strict=True)}
    known = {"JOB": "", "CODE": ""}
    community = tmp_path / "community"
    issuer = certificate("authority", tmp_path)
    env = os.environ | {"SSL_CERT_FILE": str(tmp_path / "authority.pem"), "COLUMNS": "200"}

    def run(line: str, *more: str, folder: Path = community) -> str:
        for name, place in names.items():
            line = line.replace(f"https://{place}", urls[name])
        argv = [known.get(word, word) for word in shlex.split(line, comments=True)]
        code, out, err = fork_server().run([*argv, *more], folder, env, 280)
        assert code == 0, f"{line}\n{err}"
        return out

    first, *others = [block.replace("\\\n", " ").splitlines() for block in blocks("text")]
    made = json.loads(run(first[0], "--json", folder=tmp_path))
    known["CODE"] = made["invitations"][0]
    assert len(made["invitations"]) == 20
    assert 'listen = "0.0.0.0:' not in "".join(path.read_text() for path in community.glob("*.toml"))
    certificate("certificate", community, issuer)
    (settings,) = blocks("toml")
    for path in community.glob("*.toml"):
        path.write_text(settings + path.read_text())
    starts, job, member, release = others
    assert sorted(path.name for path in community.glob("*.toml")) == sorted(line.split()[-1] for line in starts)
    with programs(starts, community, env, urls):
        made = json.loads(run(job[0], "--json"))
        known["JOB"] = made["job"][:8]
        assert known["JOB"] in run(job[1])
        firefox_history(community / "places.sqlite", ["rain+tomorrow", "only+mine"])
        said = [run(line, *(["--wait", "0"] if "client run" in line else [])) for line in member]
        assert "Joined" in said[0]
        assert said[-2:] == [run("searchveil crowd client history --home me"), "paused\n"]
        assert known["JOB"] in run(f"searchveil crowd status {urls['server']}")
        # Whoever does not know the authority talks to nobody.
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{urls['server']}/jobs", timeout=60)
        context = ssl.create_default_context(cafile=tmp_path / "authority.pem")
        with httpx.Client(verify=context, timeout=60) as knowing:
            assert knowing.get(f"{urls['server']}/jobs").status_code == 200
        run(release[0])
    ports.close()
    assert json.loads((community / "release" / "guarantee.json").read_text())["guarantee"]["epsilon"] == 1


def test_the_commands_of_the_page_are_those_above() -> None:
    """So that a new block of commands is not passed over."""
    lines = [line for block in blocks("text") for line in block.splitlines()]
    assert len(blocks("text")) == 5
    assert sum(line.startswith("searchveil crowd ") for line in lines) == 1 + 4 + 2 + 9 + 1


def test_the_units_let_each_program_do_what_it_must(tmp_path: Path) -> None:
    """systemd finds nothing wrong with them, and what a program writes lies where its unit lets it write."""
    units = blocks("ini")
    described = {}
    for text in units:
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str  # type: ignore[assignment, method-assign]
        unit.read_string(text)
        service = dict(unit["Service"])
        program, config = shlex.split(service["ExecStart"])[2], Path(shlex.split(service["ExecStart"])[-1])
        described[program] = service
        assert service["ProtectSystem"] == "strict"
        if program != "relay":  # its database is beside its configuration
            assert str(config.parent) == service["ReadWritePaths"] == service["WorkingDirectory"]
        else:
            assert "ReadWritePaths" not in service
    assert set(described) == {"server", "relay"}
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for i, text in enumerate(units):
        path = tmp_path / f"crowd-{i}.service"
        text = re.sub(r"ExecStart=\S+", f"ExecStart={sys.executable}", text)
        path.write_text(text.replace("User=crowd", "User=root"))
        done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, encoding="utf-8", check=False)
        ours = [line for line in done.stderr.splitlines() if path.name in line]
        assert (done.returncode, ours) == (0, []), done.stderr
