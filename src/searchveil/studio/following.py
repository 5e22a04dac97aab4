"""A command of searchveil that ends when the studio does which wants its answer, however that one ends.

`python -m searchveil.studio.following COMMAND…`, with a pipe as standard input of which the studio holds the other end.
"""

import os
import runpy
import signal
import threading

STDIN = 0  # not sys.stdin, whose lock a waiting thread would hold when Python ends


def follow() -> None:
    os.read(STDIN, 1)  # returns when the other end is closed, which the system does for whoever is killed
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=follow, daemon=True, name="following").start()
    runpy.run_module("searchveil", run_name="__main__", alter_sys=True)
