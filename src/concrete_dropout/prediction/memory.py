"""How much memory a pass takes, and how much there is."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from concrete_dropout.memory import SHARE, free_main_memory


class _LiveBytes(TorchDispatchMode):
    """Counts the storages that operations make and that are still alive."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self._note(leaf.untyped_storage())
        return out

    def _note(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._seen:
            self._seen.add(key)
            self.live += size
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.live -= size


def peak_bytes(action: Callable[[], object]) -> int:
    """The most memory that tensors made by an action take at one time.

    >>> peak_bytes(lambda: torch.zeros(1000) + torch.zeros(1000))
    12000
    """
    with _LiveBytes() as counter:
        action()
    return counter.peak


def free_bytes(device: torch.device) -> int:
    """What may be used of the memory that is free now."""
    if device.type == "cuda":
        return int(SHARE * torch.cuda.mem_get_info(device)[0])
    return free_main_memory()
