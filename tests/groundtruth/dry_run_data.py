"""What the tests of dry runs share: sentences, pictures and networks that learn in seconds."""

from __future__ import annotations

import csv

import numpy as np
from torch import nn

from rationales.groundtruth.networks.resnet import ResNet

NOUNS = ["bread", "sea", "owl", "film", "heart", "cup", "hill", "door", "song", "lamp"]
VERBS = ["has", "sees", "wants", "likes", "keeps", "finds"]


def sentences(count, seed=0):
    """Random sentences of nine words with three articles."""
    rng = np.random.default_rng(seed)

    def clause():
        return f"{rng.choice(['the', 'a'])} {rng.choice(NOUNS)} {rng.choice(VERBS)}"

    return [" ".join(clause() for _ in range(3)) for _ in range(count)]


def table(path, texts, labels=None, column="text"):
    """A CSV of texts, and of labels where there are any."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow([column] if labels is None else [column, "label"])
        rows.writerows(
            [text] if labels is None else [text, labels[index % len(labels)]] for index, text in enumerate(texts)
        )
    return path


def photographs(folder, count, classes=("owl", "tern"), side=32):
    """Soft random pictures, a folder for each class; with no class all in one folder."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for number in range(count):
        home = folder / classes[number % len(classes)] if classes else folder
        home.mkdir(parents=True, exist_ok=True)
        soft = np.kron(rng.integers(40, 216, (4, 4, 3)), np.ones((side // 4, side // 4, 1)))
        Image.fromarray(soft.astype(np.uint8)).save(home / f"{number:03}.png")
    return folder


def small_resnet(labels):
    return ResNet(labels, (1, 1), 8)


class Mean(nn.Module):
    """Reads the mean colour, which tells next to nothing."""

    def __init__(self, labels):
        super().__init__()
        self.layer = nn.Linear(3, labels)

    def forward(self, pixels):
        return self.layer(pixels.mean((-2, -1)))
