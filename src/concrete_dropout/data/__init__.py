"""Data modules: where rows and images come from, how they are split and normalised, and batches of them."""

from concrete_dropout.data.base import ExperimentData, Part
from concrete_dropout.data.camvid import CamVidData
from concrete_dropout.data.classification import ClassificationData, ClassificationSpec
from concrete_dropout.data.csv_file import CSVData
from concrete_dropout.data.digits import DigitsData
from concrete_dropout.data.image_folder import ImageFolderData
from concrete_dropout.data.mnist import MNISTData
from concrete_dropout.data.regression import RegressionData, RegressionSpec, Table, Tables
from concrete_dropout.data.scenes import ScenesData
from concrete_dropout.data.seg_folder import SegFolderData
from concrete_dropout.data.segmentation import VOID, SegmentationData, SegmentationSpec
from concrete_dropout.data.synthetic import SyntheticData
from concrete_dropout.data.uci import UCIData, num_splits

__all__ = [
    "VOID",
    "CSVData",
    "CamVidData",
    "ClassificationData",
    "ClassificationSpec",
    "DigitsData",
    "ExperimentData",
    "ImageFolderData",
    "MNISTData",
    "Part",
    "RegressionData",
    "RegressionSpec",
    "ScenesData",
    "SegFolderData",
    "SegmentationData",
    "SegmentationSpec",
    "SyntheticData",
    "Table",
    "Tables",
    "UCIData",
    "num_splits",
]
