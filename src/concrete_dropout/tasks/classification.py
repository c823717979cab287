"""Classification: one label per row."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from concrete_dropout.dropout.streams import Mask
from concrete_dropout.metrics.categorical_stage import CategoricalMetrics
from concrete_dropout.models.batch_norm import Statistics
from concrete_dropout.settings import OptimSettings
from concrete_dropout.tasks.categorical import CategoricalTask, names_of


class ClassificationTask(CategoricalTask):
    """y ~ Categorical(softmax(f(x))), batches x (rows, ...) and y (rows,) with class indices.

    Args:
        network: returns logits (rows, C).
        num_train: N, the size of the whole training set.
        num_classes: C.
        class_names: C names; numbers where there are none.
        batch_norm: see ``CategoricalTask``.
        optim: see ``Task``, as for the others.
        kl_weight: see ``Task``.
        train_samples: see ``Task``.
        val_samples: see ``Task``.
        test_samples: see ``Task``.
        mask: see ``Task``.
        seed: see ``Task``.

    >>> network = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3))
    >>> network = swap_dropout(network, "concrete", example_input=torch.zeros(1, 4))
    >>> task = ClassificationTask(network, num_train=100, num_classes=3)
    >>> task.predict(torch.ones(2, 4), samples=5).probabilities.sum(1)
    tensor([1.0000, 1.0000])
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        num_train: int,
        num_classes: int,
        class_names: Sequence[str] = (),
        batch_norm: Statistics = "running",
        optim: OptimSettings | None = None,
        kl_weight: float = 1.0,
        train_samples: int = 1,
        val_samples: int = 20,
        test_samples: int = 100,
        mask: Mask = "concrete",
        seed: int = 0,
    ) -> None:
        super().__init__(
            network,
            num_train=num_train,
            num_classes=num_classes,
            class_names=names_of(class_names, num_classes),
            metrics=(CategoricalMetrics(num_classes), CategoricalMetrics(num_classes)),
            batch_norm=batch_norm,
            optim=optim,
            kl_weight=kl_weight,
            train_samples=train_samples,
            val_samples=val_samples,
            test_samples=test_samples,
            mask=mask,
            seed=seed,
        )
