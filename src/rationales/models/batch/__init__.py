"""Rows of units that go through a model: the Batch, how rows are packed and pooled, and what methods ask of it."""

from rationales.models.batch.batch import Batch
from rationales.models.batch.rows import Block, Noise, Packing, Piece, Rows, pack

__all__ = ["Batch", "Block", "Noise", "Packing", "Piece", "Rows", "pack"]
