"""Signals that ask a process to end: it puts its things away first, and then ends with 128 plus the signal's number.

The handler raises KeyboardInterrupt, which DuckDB looks for during a query as well. Code that neither returns to Python
nor looks for signals is not waited for: after a grace period a thread removes the temporary folders (`before_ending`)
and ends the process.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ASKING_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU)

before_ending: list[Callable[[], None]] = []  # what is done before a process ends that does not end by itself
_received: list[int] = []  # the signal that came first, if any


def end_cleanly(grace: float) -> None:
    """From now on these signals end the process as described; one that is ignored already stays ignored (nohup)."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for number in ASKING_TO_END:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, _stop)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)  # written to even while no Python runs
    threading.Thread(target=_watch, args=(reading, grace), daemon=True, name="stopping").start()


def received() -> int | None:
    """The signal that asked this process to end, if one did."""
    return _received[0] if _received else None


def _stop(number: int, frame: FrameType | None) -> None:
    if _received:  # a second one must not disturb the putting away
        return
    _received.append(number)
    raise KeyboardInterrupt


def _watch(reading: int, grace: float) -> None:
    number = 0
    while number not in ASKING_TO_END or signal.getsignal(number) is not _stop:
        number = os.read(reading, 1)[0]
    threading.Event().wait(grace)
    for act in before_ending:
        act()
    os._exit(128 + number)


@contextmanager
def held_back() -> Iterator[None]:
    """No signal interrupts what is done here, and a process started here begins with Ctrl-C blocked.

    One that came meanwhile interrupts afterwards.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in ASKING_TO_END}
    ours = {number: handler for number, handler in before.items() if callable(handler)}
    for wanted in ours:
        signal.signal(wanted, lambda number, frame: came.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for wanted, handler in ours.items():
            signal.signal(wanted, handler)
        for number in came[:1]:
            signal.raise_signal(number)
