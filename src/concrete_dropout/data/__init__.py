"""Data modules: where rows come from, how they are split and standardised, and batches of them."""

from concrete_dropout.data.csv_file import CSVData
from concrete_dropout.data.regression import RegressionData, RegressionSpec, Table, Tables
from concrete_dropout.data.synthetic import SyntheticData
from concrete_dropout.data.uci import UCIData, num_splits

__all__ = [
    "CSVData",
    "RegressionData",
    "RegressionSpec",
    "SyntheticData",
    "Table",
    "Tables",
    "UCIData",
    "num_splits",
]
