"""Starts the project's commands as forks of a process that has imported everything, and lets them run side by side.

A line of JSON on standard input is answered by one: {"start": task} by the fork's number, {"end of": pid, "seconds": n}
by its exit code, or null where it is still there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from tests.hardening.warm_server import import_everything, run_script


def ended(pid: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.02)


def main() -> None:
    import_everything()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "start" not in request:
            print(json.dumps(ended(request["end of"], request["seconds"])), flush=True)
            continue
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = run_script(request["start"])
            finally:
                os._exit(code)
        print(child, flush=True)


if __name__ == "__main__":
    main()
