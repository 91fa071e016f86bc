"""Train the masker that ships for EfficientNet-Lite0, from pictures without labels that may be used for it.

python -m zoo.picture_masker --birds birds-112.tar.gz --out zoo/out/efficientnet-lite0-masker.safetensors --minutes 40

Pictures: those of birds-112 (MIT), the photographs that come with scikit-image and scikit-learn, and collages of
these, which show several things at once. The photographs of ImageNet that maskers are measured on (bench/pictures.py)
are not among them. An interrupted training goes on when the same command is given again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import rationales
from rationales.data.archives import unpacked
from rationales.masks.instant.pictures.augmentation import picture_files
from rationales.masks.instant.pictures.training import PictureTrainSettings, train_pictures
from rationales.masks.instant.training import ValidationResult
from rationales.models.image.model import ImageModel
from rationales.models.image.reading import read_image

PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "motorcycle_left", "camera", "horse", "coins", "retina")
REPEATED = 12  # entries of each photograph, which is cropped anew each time
SIDE = 224  # pixels of a collage
ENDLESS = 10**9


def photographs() -> list[Path]:
    """Photographs inside installed packages."""
    import skimage.data
    import sklearn.datasets

    folders = [Path(skimage.data.__file__).parent, Path(sklearn.datasets.__file__).parent / "images"]
    names = {*PHOTOGRAPHS, "china", "flower"}
    return [path for folder in folders for path in picture_files(folder) if path.stem in names]


def collage(paths: list[Path], generator: np.random.Generator) -> np.ndarray:
    """(SIDE, SIDE, 3): a picture with parts of one or two others pasted into it."""
    from PIL import Image

    def tile(side: int) -> np.ndarray:
        pixels = Image.fromarray(read_image(paths[int(generator.integers(len(paths)))]).pixels)
        return np.asarray(pixels.resize((side, side), Image.Resampling.BICUBIC))

    canvas = tile(SIDE).copy()
    for _ in range(int(generator.integers(1, 3))):
        side = int(generator.integers(SIDE // 3, 2 * SIDE // 3))
        top, left = generator.integers(0, SIDE - side, 2)
        canvas[top : top + side, left : left + side] = tile(side)
    return canvas


def training_pictures(birds: Path, collages: int, seed: int) -> list[Any]:
    """Paths of single pictures, and collages as arrays."""
    single, others = picture_files(birds), photographs()
    generator = np.random.default_rng(seed)
    mixed = [*single, *(REPEATED * 10 * others)]
    return [*single, *(REPEATED * others), *(collage(mixed, generator) for _ in range(collages))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--birds", type=Path, required=True, help="birds-112: folder or archive; its part train is used"
    )
    parser.add_argument("--out", type=Path, required=True, help="where the masker goes")
    parser.add_argument("--minutes", type=float, default=40.0, help="of training")
    parser.add_argument("--steps", type=int, default=ENDLESS, help="of training at most")
    parser.add_argument("--inputs", type=int, default=8, help="pictures in a step")
    parser.add_argument("--collages", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    model = rationales.load("efficientnet-lite0")
    if not isinstance(model, ImageModel):
        raise TypeError("efficientnet-lite0 is a model of pictures")
    settings = PictureTrainSettings(steps=args.steps, minutes=args.minutes, inputs=args.inputs, seed=args.seed)
    folder = unpacked(args.birds)
    train_folder = next((path for path in folder.rglob("train") if path.is_dir()), folder)
    pictures = training_pictures(train_folder, args.collages, args.seed)
    print(f"{len(pictures)} pictures", flush=True)
    resume = args.out.with_name(f"{args.out.name}.progress")
    masker = train_pictures(model, pictures, settings, on_validation=_print, resume=resume)
    masker.save(args.out, half=True)
    print(f"wrote {args.out}: {args.out.stat().st_size / 2**20:.2f} MB, {masker.card.training}")


def _print(result: ValidationResult) -> None:
    star = " *" if result.best else ""
    print(f"step {result.step}  {result.seconds:.0f} s  loss on held-out pictures {result.loss:.4f}{star}", flush=True)


if __name__ == "__main__":
    main()
