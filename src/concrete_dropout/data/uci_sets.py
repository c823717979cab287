"""The nine UCI regression sets with published splits (section 4.2): names, columns, checksums."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UCISet:
    """One of the published sets.

    Attributes:
        name: what a user types.
        folder: in the published layout.
        sha256: of data.txt as published.
        features: names of the feature columns; the published files have none.
        target: name of the target column.
    """

    name: str
    folder: str
    sha256: str
    features: tuple[str, ...]
    target: str


SETS = (
    UCISet(
        "boston",
        "bostonHousing",
        "baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
        tuple("CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT".split()),
        "MEDV",
    ),
    UCISet(
        "concrete",
        "concrete",
        "43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de",
        tuple("cement slag fly_ash water superplasticizer coarse_aggregate fine_aggregate age".split()),
        "strength",
    ),
    UCISet(
        "energy",
        "energy",
        "7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950",
        tuple("compactness surface wall roof height orientation glazing glazing_distribution".split()),
        "heating_load",
    ),
    UCISet(
        "kin8nm",
        "kin8nm",
        "a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810",
        tuple(f"theta{joint}" for joint in range(1, 9)),
        "distance",
    ),
    UCISet(
        "power",
        "power-plant",
        "daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31",
        ("temperature", "vacuum", "pressure", "humidity"),
        "energy_output",
    ),
    UCISet(
        "protein",
        "protein-tertiary-structure",
        "d35f332707e8a73f21e021039250a1e7b26e14f7dd826a0337ffa8e8e48b9727",
        tuple(f"F{column}" for column in range(1, 10)),
        "RMSD",
    ),
    UCISet(
        "wine",
        "wine-quality-red",
        "3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1",
        tuple(
            "fixed_acidity volatile_acidity citric_acid residual_sugar chlorides free_sulfur_dioxide "
            "total_sulfur_dioxide density pH sulphates alcohol".split()
        ),
        "quality",
    ),
    UCISet(
        "yacht",
        "yacht",
        "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
        tuple("buoyancy_position prismatic length_displacement beam_draught length_beam froude".split()),
        "resistance",
    ),
    UCISet(
        "naval",
        "naval-propulsion-plant",
        "de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",
        tuple("lever speed GTT GTn GGn Ts Tp T48 T1 T2 P48 P1 P2 Pexh TIC mf".split()),
        "compressor_decay",
    ),
)

BY_NAME = {**{entry.folder: entry for entry in SETS}, **{entry.name: entry for entry in SETS}}
