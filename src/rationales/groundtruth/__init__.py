"""Data with a known cause, models that must use it, and whether methods find it.

`Do Feature Attribution Methods Correctly Attribute Features?` (Zhou et al. 2022). Everything that trains networks is
imported from `training`, `encoded_examples`, `networks` and `explainable`.
"""

from rationales.groundtruth.image_examples import ImageExample, LoadedImages, image_example, load_images
from rationales.groundtruth.label_reassignment import Reassignment, reassign, reassignment_keeping, uniform_reassignment
from rationales.groundtruth.modified_data import DataSplit, ModifiedData, modify, split, truncate_texts
from rationales.groundtruth.plants.catalogue import PLANTS, find_plant
from rationales.groundtruth.plants.image_plants import ImagePlant, PerClass
from rationales.groundtruth.plants.plant import Plant, PlantedExample, random_generator
from rationales.groundtruth.theory import Reliance, reliance_test, shapley_bounds, shapley_values

__all__ = [
    "PLANTS",
    "DataSplit",
    "ImageExample",
    "ImagePlant",
    "LoadedImages",
    "ModifiedData",
    "PerClass",
    "Plant",
    "PlantedExample",
    "Reassignment",
    "Reliance",
    "find_plant",
    "image_example",
    "load_images",
    "modify",
    "random_generator",
    "reassign",
    "reassignment_keeping",
    "reliance_test",
    "shapley_bounds",
    "shapley_values",
    "split",
    "truncate_texts",
    "uniform_reassignment",
]
