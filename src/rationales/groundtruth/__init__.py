"""Data whose true cause is known, models that must use it, and whether methods find it.

`Do Feature Attribution Methods Correctly Attribute Features?` (Zhou et al. 2022). What trains networks stands in
`training`, `folds`, `networks` and `explainable`, and is imported from there.
"""

from rationales.groundtruth.image_plants import ImagePlant, PerClass
from rationales.groundtruth.labels import Reassignment, keeping, random, reassign
from rationales.groundtruth.modify import Modified, Split, modify, shortened, split
from rationales.groundtruth.plant import Plant, Planted, generator
from rationales.groundtruth.registry import PLANTS, find_plant
from rationales.groundtruth.shots import Loaded, Shot, load_shots, shot
from rationales.groundtruth.theory import Reliance, reliance, shapley, shapley_band

__all__ = [
    "PLANTS",
    "ImagePlant",
    "Loaded",
    "Modified",
    "PerClass",
    "Plant",
    "Planted",
    "Reassignment",
    "Reliance",
    "Shot",
    "Split",
    "find_plant",
    "generator",
    "keeping",
    "load_shots",
    "modify",
    "random",
    "reassign",
    "reliance",
    "shapley",
    "shapley_band",
    "shortened",
    "shot",
    "split",
]
