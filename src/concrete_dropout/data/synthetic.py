"""The paper's synthetic data (section 4.1): a line with Gaussian noise."""

from __future__ import annotations

import numpy as np

from concrete_dropout.data.checks import finite_number, whole_number
from concrete_dropout.data.regression import RegressionData, Table, Tables

# Each part has a generator of its own, so that the size of one never changes the rows of another.
STREAMS = {"train": 0, "val": 1, "test": 2}


class SyntheticData(RegressionData):
    """y = intercept + slope * x + noise * N(0, 1), with x ~ N(0, 1).

    More data extend fewer: the first rows of a part are the same for any number of rows.

    Args:
        num_data: training rows, N.
        num_val: validation rows; 0 for none.
        num_test: test rows; 0 for none.
        slope: of the line.
        intercept: of the line.
        noise: standard deviation, which the aleatoric uncertainty should find.
        **loading: of ``RegressionData``.

    >>> data = SyntheticData(num_data=10, batch_size=4, seed=1)
    >>> data.spec.num_train, [tuple(x.shape) for x, y in data.train_dataloader()]
    (10, [(4, 1), (4, 1), (4, 1)])
    """

    def __init__(
        self,
        num_data: int = 1000,
        num_val: int = 1000,
        num_test: int = 1000,
        slope: float = 2.0,
        intercept: float = 8.0,
        noise: float = 1.0,
        **loading: int,
    ) -> None:
        super().__init__(**loading)
        self.sizes = {
            "train": whole_number("data.num_data", num_data, minimum=1),
            "val": whole_number("data.num_val", num_val, minimum=0),
            "test": whole_number("data.num_test", num_test, minimum=0),
        }
        self.slope = finite_number("data.slope", slope)
        self.intercept = finite_number("data.intercept", intercept)
        self.noise = finite_number("data.noise", noise, minimum=0)

    def load(self) -> Tables:
        """Draw all parts."""
        parts = {name: self._draw(name, size) for name, size in self.sizes.items() if size > 0}
        return Tables(parts["train"], parts.get("val"), parts.get("test"), ("x",), ("y",))

    def _draw(self, part: str, size: int) -> Table:
        # Row by row (x, noise): the first rows do not depend on how many follow.
        draws = np.random.default_rng((self.seed, STREAMS[part])).standard_normal((size, 2))
        x, noise = draws[:, :1].copy(), draws[:, 1:]
        return Table(x, self.intercept + self.slope * x + self.noise * noise)
