"""Train a small network that says whether a caption fits a picture of coloured shapes, and write it as a folder.

    python -m zoo.shapes OUT [--steps 3000] [--seed 0]

The pictures and captions are drawn by `rationales.groundtruth.captioned_shapes`; training pictures and test pictures
have different seeds. One CPU core is enough. The folder is read by `rationales.load` and `rationales explain --model`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rationales.groundtruth.captioned_shapes import LABELS, SIDE, CaptionedPicture, captioned_pictures
from rationales.groundtruth.networks.vocabulary import word_tokenizer
from rationales.groundtruth.pair_training import PairData, TrainingSettings, accuracy, train_pairs
from rationales.models.multimodal.pair_network import PairConfiguration, PairNetwork

TRAINING_SEED, TEST_SEED = 1000, 2000
TRAINING_PICTURES, TEST_PICTURES = 16_000, 2000


def pair_data(pictures: list[CaptionedPicture], tokenizer: Any) -> PairData:
    """The pictures as tensors."""
    labels = [picture.label for picture in pictures]
    return PairData.of([picture.pixels for picture in pictures], [p.caption for p in pictures], labels, tokenizer)


def main() -> None:
    """Train, report the accuracy and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--pictures", type=int, default=TRAINING_PICTURES)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    started = time.process_time()
    pictures = captioned_pictures(arguments.pictures, TRAINING_SEED + arguments.seed)
    tokenizer = word_tokenizer([picture.caption for picture in pictures])
    torch.manual_seed(arguments.seed)
    config = PairConfiguration(len(tokenizer), dict(enumerate(LABELS)), SIDE, pad_token_id=tokenizer.pad_token_id)
    module = PairNetwork(config)
    settings = TrainingSettings(steps=arguments.steps, seed=arguments.seed)
    shares = train_pairs(module, pair_data(pictures, tokenizer), settings, report=lambda line: print(line, flush=True))
    module.save(arguments.folder, tokenizer)
    test = pair_data(captioned_pictures(TEST_PICTURES, TEST_SEED), tokenizer)
    seconds = time.process_time() - started
    print(f"training accuracy of the last steps {np.mean(shares[-100:]):.3f}, {seconds:.0f} s of CPU time")
    print(f"accuracy on {TEST_PICTURES} test pictures: {accuracy(module, test):.4f}")


if __name__ == "__main__":
    main()
