"""Public data sets and users' own data, read into one `Example` type."""

from rationales.data.datasets import DATASETS, Dataset
from rationales.data.example import Example
from rationales.data.reading import read_data

__all__ = ["DATASETS", "Dataset", "Example", "read_data"]
