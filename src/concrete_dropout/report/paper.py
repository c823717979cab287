"""Numbers of the paper that reports compare with.

Source: Gal, Hron and Kendall, "Concrete Dropout" (2017).
UCI: appendix D ("More Results"), the tables "Average test log likelihood/nats" and "Average test RMSE". Mean ± standard
error over the published splits, as printed.
CamVid: section 4.4, the table of DenseNet variants; mean IoU in per cent, one number each.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "Gal, Hron and Kendall (2017), Concrete Dropout, appendix D"
# The tables are printed with two decimals.
DECIMALS = 2
RESOLUTION = 10.0**-DECIMALS
SPLITS = 20
PROTEIN_SPLITS = 5

DROPOUT, CDROPOUT, CDROPOUT_M, DGP = "Dropout", "CDropout", "CDropoutM", "DGP"
METHODS = (DROPOUT, CDROPOUT, CDROPOUT_M, DGP)

Value = tuple[float, float]


@dataclass(frozen=True)
class PaperRow:
    """One UCI set in both tables.

    Args:
        name: of the set, as train.py calls it.
        points: N, training and test points together.
        features: D.
        log_likelihood: method -> (mean, standard error), in nats per point; higher is better.
        rmse: method -> (mean, standard error), in target units; lower is better.
    """

    name: str
    points: int
    features: int
    log_likelihood: dict[str, Value]
    rmse: dict[str, Value]

    @property
    def splits(self) -> int:
        """Number of published splits."""
        return PROTEIN_SPLITS if self.name == "protein" else SPLITS


def _row(name: str, points: int, features: int, log_likelihood: str, rmse: str) -> PaperRow:
    def values(line: str) -> dict[str, Value]:
        pairs = [entry.split("±") for entry in line.split()]
        return {method: (float(mean), float(se)) for method, (mean, se) in zip(METHODS, pairs, strict=True)}

    return PaperRow(name, points, features, values(log_likelihood), values(rmse))


# Dropout, CDropout, CDropoutM (after the last M step), DGP. The last M step moves no mean, hence equal RMSEs.
UCI = {
    row.name: row
    for row in (
        _row("boston", 506, 13, "-2.34±.03 -2.72±.01 -2.35±.05 -2.17±.10", "2.80±.13 2.65±.17 2.65±.17 2.38±.12"),
        _row("concrete", 1030, 8, "-2.82±.02 -3.51±.00 -3.12±.07 -2.61±.02", "4.50±.18 4.46±.16 4.46±.16 4.64±.11"),
        _row("energy", 768, 8, "-1.48±.00 -2.30±.00 -0.84±.03 -0.95±.01", "0.47±.01 0.46±.02 0.46±.02 0.57±.02"),
        _row("kin8nm", 8192, 8, "1.10±.00 0.65±.00 1.24±.00 1.79±.02", "0.08±.00 0.07±.00 0.07±.00 0.05±.00"),
        _row("power", 9568, 4, "-2.67±.01 -2.75±.01 -2.75±.01 -2.58±.01", "3.63±.04 3.70±.04 3.70±.04 3.60±.03"),
        _row("protein", 45730, 9, "-2.70±.00 -2.81±.00 -2.81±.00 -2.11±.04", "3.62±.01 3.85±.02 3.85±.02 3.24±.10"),
        _row("wine", 1588, 11, "-0.90±.01 -1.70±.00 -0.94±.02 -0.10±.03", "0.60±.01 0.62±.00 0.62±.00 0.50±.01"),
        _row("yacht", 308, 6, "-1.37±.02 -1.75±.00 -0.77±.06 -0.99±.07", "0.66±.06 0.57±.05 0.57±.05 0.98±.09"),
        _row("naval", 11934, 16, "4.32±.00 5.87±.05 5.89±.05 4.77±.32", "0.00±.00 0.00±.00 0.00±.00 0.01±.00"),
    )
}

ALIASES = {
    "bostonhousing": "boston",
    "power-plant": "power",
    "protein-tertiary-structure": "protein",
    "wine-quality-red": "wine",
    "red wine": "wine",
    "naval-propulsion-plant": "naval",
}


def paper_row(label: str) -> PaperRow | None:
    """The paper's numbers for a set, by its name here or that of its published folder.

    >>> paper_row("wine-quality-red").log_likelihood["CDropoutM"]
    (-0.94, 0.02)
    """
    name = label.strip().lower()
    return UCI.get(ALIASES.get(name, name))


@dataclass(frozen=True)
class CamvidRow:
    """One variant of the segmentation network.

    Args:
        name: in words.
        kind: of dropout, as train.py calls it.
        mc: whether predictions are means over sampled networks.
        miou: mean intersection over union on CamVid's test images, in per cent.
    """

    name: str
    kind: str
    mc: bool
    miou: float


CAMVID_SOURCE = "Gal, Hron and Kendall (2017), Concrete Dropout, section 4.4"
CAMVID_NETWORK = "FC-DenseNet-103 (9.3 million parameters) on full images of 360 x 480"
CAMVID_PARAMETERS = 9_322_091
CAMVID_P = 0.2  # of fixed dropout
CAMVID = (
    CamvidRow("No dropout", "none", False, 65.8),
    CamvidRow("Dropout, p = 0.2", "fixed", False, 67.1),
    CamvidRow("Dropout, p = 0.2, MC", "fixed", True, 67.2),
    CamvidRow("Concrete dropout", "concrete", False, 67.2),
    CamvidRow("Concrete dropout, MC", "concrete", True, 67.4),
)

# What section 4.3 and the appendix found when a key varied on MNIST.
MNIST = {
    "data.train_size": "p falls as the training set grows, to 0 in the first two layers; in the third hidden layer and "
    "the output layer it changes little (section 4.3).",
    "model.hidden": "p of the first layer stays close to 0, and p of the others rises with the number of hidden units "
    "(section 4.3).",
    "dropout.length_scale": "l = 0.01 had the best balance of log-likelihood and accuracy, and the ELBO was a good "
    "indicator of the best length scale (appendix).",
}


def finding(experiment: str, key: str) -> str:
    """What the paper found when this key varied; "" where it says nothing.

    >>> finding("mnist_width", "model.hidden")[:32], finding("digits", "model.hidden")
    ('p of the first layer stays close', '')
    """
    return MNIST.get(key, "") if experiment.startswith("mnist") else ""
