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
        splits_sha256: of everything else, see ``uci_download.splits_sha256``.
        features: names of the feature columns; the published files have none.
        target: name of the target column.
    """

    name: str
    folder: str
    sha256: str
    splits_sha256: str
    features: tuple[str, ...]
    target: str


SETS = (
    UCISet(
        "boston",
        "bostonHousing",
        "baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
        "96d30ce145a79c5791801086664c7d1ab63428076d5b4cf1d95a67a67966c382",
        tuple("CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT".split()),
        "MEDV",
    ),
    UCISet(
        "concrete",
        "concrete",
        "43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de",
        "437beaff9ae143db3bdead79282b8b7aa01aa35fa0470f526a883e188428bfbe",
        tuple("cement slag fly_ash water superplasticizer coarse_aggregate fine_aggregate age".split()),
        "strength",
    ),
    UCISet(
        "energy",
        "energy",
        "7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950",
        "6516fd7c55d5e05236416495dcf16ce7e8a4d4225a4cf1a0dfd520ade46349be",
        tuple("compactness surface wall roof height orientation glazing glazing_distribution".split()),
        "heating_load",
    ),
    UCISet(
        "kin8nm",
        "kin8nm",
        "a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810",
        "5b685ea5e0cf82edfd46a2aee8cc341425804b5c5a493118976f097d79c5344d",
        tuple(f"theta{joint}" for joint in range(1, 9)),
        "distance",
    ),
    UCISet(
        "power",
        "power-plant",
        "daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31",
        "4f7e58afeab1407ac21fcfd0adaca4124297d65738e4e598f8043eb364d3bfb4",
        ("temperature", "vacuum", "pressure", "humidity"),
        "energy_output",
    ),
    UCISet(
        "protein",
        "protein-tertiary-structure",
        "d35f332707e8a73f21e021039250a1e7b26e14f7dd826a0337ffa8e8e48b9727",
        "90aefb54d5f5f1a4ae53ee9e27020140d38549198a77c222594a9041870d5744",
        tuple(f"F{column}" for column in range(1, 10)),
        "RMSD",
    ),
    UCISet(
        "wine",
        "wine-quality-red",
        "3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1",
        "97f6a7a789f30c81e3005313b3f03c79589feb6e22cf0998404e134f74f4d8c7",
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
        "7ac3b4bcb9ef1d3295066790b67484d9e2113f9512867e4c63665b4809c002fa",
        tuple("buoyancy_position prismatic length_displacement beam_draught length_beam froude".split()),
        "resistance",
    ),
    UCISet(
        "naval",
        "naval-propulsion-plant",
        "de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",
        "6c25b88844ccee04e087ff5aa639dee24a4aee968996d5d6c51ae3bc9db92b56",
        tuple("lever speed GTT GTn GGn Ts Tp T48 T1 T2 P48 P1 P2 Pexh TIC mf".split()),
        "compressor_decay",
    ),
)

BY_NAME = {**{entry.folder: entry for entry in SETS}, **{entry.name: entry for entry in SETS}}
