"""What one segmented image looks like: its prediction, errors and uncertainties, as arrays and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from concrete_dropout.callbacks.pictures import Pixels
from concrete_dropout.callbacks.stages import CategoricalOutput
from concrete_dropout.predictive import CategoricalPrediction

FIXED = ("input", "target")  # the same at all steps
CHANGING = ("prediction", "epistemic", "aleatoric", "error")


@dataclass(frozen=True, eq=False)
class Scene:
    """One image of an evaluation, all arrays (H, W), perhaps smaller than what was evaluated.

    Attributes:
        index: number of the image in its part.
        picture: (H, W, 3), None where the data module has none.
        targets: true classes.
        predicted: the most probable classes.
        void: pixels without a true class.
        epistemic: mutual information, in nats.
        aleatoric: expected entropy, in nats.
        num_classes: C.
        wrong: share of the labelled pixels, None where there are none.
    """

    index: int
    picture: Pixels | None
    targets: NDArray[np.int64]
    predicted: NDArray[np.int64]
    void: NDArray[np.bool_]
    epistemic: NDArray[np.float32]
    aleatoric: NDArray[np.float32]
    num_classes: int
    wrong: float | None

    @property
    def scales(self) -> dict[str, float]:
        """The ends of the colour scales, in nats."""
        from concrete_dropout.plots.pictures import uncertainty_scales  # plotly takes half a second to import

        return uncertainty_scales(self.num_classes)

    def numbers(self) -> dict[str, float | None]:
        """Means over the labelled pixels."""
        labelled = ~self.void
        means = {"mutual_information": self.epistemic, "expected_entropy": self.aleatoric}
        any_labelled = bool(labelled.any())
        found = {name: float(values[labelled].mean()) if any_labelled else None for name, values in means.items()}
        return {"wrong": self.wrong, **found}

    def pictures(self, colours: Sequence[tuple[int, int, int]]) -> dict[str, Pixels]:
        """All pictures by their kind; no "input" where there is none."""
        from concrete_dropout.plots import pictures as plots  # plotly takes half a second to import

        made = {} if self.picture is None else {"input": self.picture}
        return {
            **made,
            "target": plots.target_picture(self.targets, colours, self.void),
            "prediction": plots.class_picture(self.predicted, colours, self.void),
            "epistemic": plots.uncertainty_picture(self.epistemic, self.scales["epistemic"], self.void),
            "aleatoric": plots.uncertainty_picture(self.aleatoric, self.scales["aleatoric"], self.void),
            "error": plots.error_picture(self.predicted, self.targets, self.void),
        }


def scene_of(output: CategoricalOutput, row: int, index: int, picture: Pixels | None, max_size: int) -> Scene:
    """One row of a batch, made smaller where its longer side has more than ``max_size`` pixels.

    Where images of several sizes share a batch, the smaller ones are filled up to the right and below: the size of
    the picture says what belongs to the image.
    """
    from concrete_dropout.plots.pictures import fitted  # plotly takes half a second to import

    height, width = output.targets.shape[1:] if picture is None else picture.shape[:2]

    def shrunk(values: Tensor, labels: bool) -> NDArray[Any]:
        return fitted(values[:height, :width].cpu().numpy(), max_size, labels=labels)

    one = CategoricalPrediction(
        output.prediction.probabilities[row : row + 1].float(),
        output.prediction.expected_entropy[row : row + 1].float(),
    )
    predicted, targets, void = one.probabilities[0].argmax(0), output.targets[row], output.void[row]
    labelled = ~void
    return Scene(
        index=index,
        picture=None if picture is None else cast(Pixels, fitted(picture, max_size)),
        targets=shrunk(targets, labels=True),
        predicted=shrunk(predicted, labels=True),
        void=shrunk(void, labels=True),
        epistemic=shrunk(one.mutual_information[0], labels=False),
        aleatoric=shrunk(one.expected_entropy[0], labels=False),
        num_classes=output.num_classes,
        wrong=float((predicted != targets)[labelled].float().mean()) if bool(labelled.any()) else None,
    )
