"""Runs the project's commands in forks of a process that has imported everything, for tests of many commands.

A line of JSON on standard input is a command: script or module, arguments, folder, environment, limits. The answer is
its exit code and the most memory that it had, in kB. What a fork runs is the real script from its first line on; only
torch, Lightning and Hydra are there already.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import resource
import runpy
import signal
import sys
import traceback
from typing import Any

DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2  # what lets root pass by the permissions of files
CAPABILITY_VERSION = 0x20080522


def import_everything() -> None:
    import hydra  # noqa: F401
    import pytorch_lightning  # noqa: F401
    import segmentation_models_pytorch  # noqa: F401
    import torch
    import torchmetrics  # noqa: F401

    from concrete_dropout import callbacks, control, data, tasks  # noqa: F401
    from concrete_dropout.cli import agent_run, evaluation_run, predict_run, replicated, run, study, sweep  # noqa: F401

    torch.set_num_threads(1)


def respect_permissions() -> None:
    """Root reads and writes any file: give that up, as an ordinary user has it."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    for word in (0, 1):  # effective and permitted
        sets[word] &= ~(1 << DAC_OVERRIDE | 1 << DAC_READ_SEARCH)
    assert libc.capset(header, sets) == 0, os.strerror(ctypes.get_errno())


def run_script(task: dict[str, Any]) -> int:
    atexit._clear()  # what the server will do at its end is not its forks' to do: W&B's temporary folder is for all
    os.setsid()
    os.chdir(task["folder"])
    os.environ.update(task["environment"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(task[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    signal.alarm(task["seconds"])
    for name, limit in task["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
    respect_permissions()
    script = task["script"]
    sys.argv = [script, *task["arguments"]]
    sys.path[0] = os.path.dirname(script)
    sys.path[1:1] = [path for path in task["environment"].get("PYTHONPATH", "").split(":") if path]
    try:
        if script.endswith(".py"):
            runpy.run_path(script, run_name="__main__")
        else:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def main() -> None:
    import_everything()
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = run_script(json.loads(line))
            finally:
                os._exit(code)
        _, status, used = os.wait4(child, 0)
        print(os.waitstatus_to_exitcode(status), used.ru_maxrss, flush=True)


if __name__ == "__main__":
    main()
