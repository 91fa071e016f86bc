"""Public data sets and users' own, read into one `Example` type."""

from rationales.data.example import Example
from rationales.data.reading import read
from rationales.data.registry import DATASETS, Dataset

__all__ = ["DATASETS", "Dataset", "Example", "read"]
