"""Serve the studio until somebody ends it."""

import ipaddress
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from searchveil.bodies import Impatient
from searchveil.errors import InputError, setting
from searchveil.studio.app import application
from searchveil.studio.guard import ENTRY, Door
from searchveil.studio.places import Places
from searchveil.studio.state import Studio

LOOPBACK = "127.0.0.1"
USUAL_PORT = 80
MOST_CONNECTIONS = 100  # a browser has six


def serve(
    log: str | None,
    ledger: str | None,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Until a signal comes; `say` tells the person at the terminal."""
    root = Path.cwd()
    places = Places.of(root, [path for path in (log, ledger) if path])
    studio = Studio(places, log=_named(places, log, "log"), ledger=_named(places, ledger, "ledger"))
    if log and not places.path(log, "log").is_file():
        raise InputError(f"{log}: there is no such file", parameter="log", instead="name another, or none")
    with bound(host, port) as listening:
        door = Door()
        address = address_of(host, listening.getsockname()[1])
        link = f"http://{address}{ENTRY}?token={door.new_token()}"

        def entered() -> None:
            say(f"For another browser, once: http://{address}{ENTRY}?token={door.new_token()}")

        app = application(studio, door, hosts_of(host, listening), f"studio-{listening.getsockname()[1]}", entered)
        say(f"The studio of {root} is at\n  {link}\nThe link opens it once. Ctrl-C ends it; a release goes on.")
        if not is_loopback(host):
            say(f"Whoever reaches {address} and has a link sees this log. Nothing on the way is encrypted.")
        if browser and has_screen():
            page = opening(studio.private, link)
            threading.Thread(target=webbrowser.open, args=(page,), daemon=True, name="browser").start()
        config = uvicorn.Config(
            app,
            http=Impatient,
            ws="none",
            lifespan="off",  # the app has none, and one that a second Ctrl-C cuts off is told as an error
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=3,
            limit_concurrency=MOST_CONNECTIONS,
        )
        try:
            uvicorn.Server(config).run(sockets=[listening])
        except KeyboardInterrupt:  # a signal, which uvicorn passes on when it has ended
            pass
        finally:
            studio.close()
    say("The studio has ended.")


def has_screen() -> bool:
    """Without one, Python would start a browser for terminals in the very terminal that shows the link."""
    return sys.platform == "darwin" or any(name in os.environ for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))


def opening(place: Path, link: str) -> str:
    """A page of the owner's that leads to the link: all users of a machine see what a browser is started with."""
    page = place / "open.html"
    page.write_text(f'<meta charset="utf-8"><meta http-equiv="refresh" content="0;url={link}">', "utf-8")
    return page.as_uri()


def _named(places: Places, text: str | None, name: str) -> str:
    return places.name(places.path(text, name)) if text else ""


def bound(host: str, port: int) -> socket.socket:
    """Listening before the browser is opened: it may come at once."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
    except (OSError, OverflowError) as problem:
        raise InputError(
            f"{host}:{port} cannot be listened on: {getattr(problem, 'strerror', None) or problem}",
            parameter="port",
            instead="choose another "
            + setting("host")
            + " or "
            + setting("port")
            + ", which is any free one if left out",
        ) from None
    listening.listen(128)
    return listening


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_of(host: str, port: int) -> str:
    """As a browser has it, which leaves the usual port out."""
    anywhere = {"0.0.0.0": LOOPBACK, "::": "[::1]"}
    shown = anywhere.get(host, f"[{host}]" if ":" in host else host).lower()
    return shown if port == USUAL_PORT else f"{shown}:{port}"


def hosts_of(host: str, listening: socket.socket) -> frozenset[str]:
    """The names that a browser may ask for. A foreign name that leads here is an attack (DNS rebinding).

    Where all addresses are listened on, these are this machine's own name and addresses.
    """
    port = listening.getsockname()[1]
    names = {address_of(host, port)}
    if is_loopback(host) or host in ("0.0.0.0", "::"):
        names |= {address_of(name, port) for name in (LOOPBACK, "localhost", "::1")}
    if host in ("0.0.0.0", "::"):
        own = socket.gethostname()
        names.add(address_of(own, port))
        try:
            found = socket.getaddrinfo(own, port, type=socket.SOCK_STREAM)
        except OSError:
            found = []
        names |= {address_of(str(where[0]), port) for *_, where in found}
    return frozenset(names)
