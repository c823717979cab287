"""Which statistics BatchNorm normalises with in evaluation: the running ones, or those of the batch at hand.

The original FC-DenseNet was tested with batch statistics, one image at a time. They depend on whatever else is in the
batch, so a prediction then belongs to its batch; the running ones are the default everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

Statistics = Literal["running", "batch"]


@contextmanager
def batch_statistics(model: nn.Module) -> Iterator[None]:
    """Context in which BatchNorm uses batch statistics in eval mode too; the running ones stay as they are.

    They are taken away for a while, which is torch's own sign for it (``track_running_stats=False``), understood by
    all its variants. The modes of modules are left alone. Put back on exit, also on error.

    Args:
        model: any module; one without BatchNorm is not changed.

    >>> norm = nn.BatchNorm1d(1).eval()
    >>> x = torch.tensor([[1.0], [3.0]])
    >>> with batch_statistics(norm):
    ...     inside = norm(x).detach()
    >>> inside.flatten(), norm(x).detach().flatten()
    (tensor([-1.0000,  1.0000]), tensor([1.0000, 3.0000]))
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    before = [(norm, norm.running_mean, norm.running_var) for norm in norms]
    try:
        for norm in norms:
            norm.running_mean = norm.running_var = None
        yield
    finally:
        for norm, mean, var in before:
            norm.running_mean, norm.running_var = mean, var
