"""How much memory there is, and what is said where it was not enough. No torch here."""

from __future__ import annotations

import os
from pathlib import Path

from concrete_dropout.errors import UserError

SHARE = 0.7  # of what is free: others need some too
FALLBACK = 4 << 30
CGROUP = Path("/sys/fs/cgroup")
GB = 1e9
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


def free_main_memory() -> int:
    """Bytes that may be used of the main memory that is free now, on this machine and in this container."""
    return int(SHARE * min(_free_of_the_machine(), _free_of_the_container()))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was not enough memory, on the CPU or a GPU.

    >>> is_out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried ..."))
    True
    """
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(text in str(error) for text in OUT_OF_MEMORY)
    )


def memory_error(error: BaseException) -> UserError | None:
    """For an error of a step that did not fit all the same: what to lower. None for any other error."""
    if not is_out_of_memory(error):
        return None
    said = (str(error).strip().splitlines() or ["MemoryError"])[0][:200]
    return UserError(
        f"there is not enough memory ({said}). Lower data.batch_size, task.train_samples, the size of the model or "
        "the amount of data"
    )


def _free_of_the_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (OSError, ValueError, AttributeError):
        return FALLBACK


def _free_of_the_container() -> int:
    try:
        limit, used = ((CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return 1 << 62 if limit == "max" else max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return 1 << 62
