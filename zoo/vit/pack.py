"""Pack the bird photographs into one file that travels to the training machine: WebP bytes as they are, and labels.

python -m zoo.vit.pack --data birds-112.tar.gz --out zoo/carry/birds.safetensors        # 21 MB
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from rationales.data.reading import read_data
from rationales.files import write_bytes

SPLITS = ("train", "val", "test")
SIDE = 112  # pixels


def pack(data: Path, out: Path, limit: int | None = None) -> Path:
    """Write all splits: `SPLIT.bytes` (all files in a row), `SPLIT.ends` and `SPLIT.labels`; names in the header."""
    tensors: dict[str, Tensor] = {}
    labels: list[str] = []
    for split in SPLITS:
        examples = list(read_data("birds-112", split, data))
        examples = examples[:: max(1, len(examples) // limit)][:limit] if limit is not None else examples
        labels = labels or sorted({str(example.label) for example in examples})
        files = [Path(example.image).read_bytes() for example in examples]
        tensors[f"{split}.bytes"] = torch.frombuffer(bytearray(b"".join(files)), dtype=torch.uint8)
        tensors[f"{split}.ends"] = torch.tensor(np.cumsum([len(content) for content in files]))
        tensors[f"{split}.labels"] = torch.tensor([labels.index(str(example.label)) for example in examples])
    out.parent.mkdir(parents=True, exist_ok=True)
    return write_bytes(out, save(tensors, {"labels": ",".join(labels)}))


def unpack(path: Path, split: str, side: int = SIDE) -> tuple[Tensor, Tensor]:
    """(pictures, 3, side, side) bytes and (pictures,) labels of a split."""
    with safe_open(path, "pt") as file:
        content = file.get_tensor(f"{split}.bytes").numpy().tobytes()
        ends = file.get_tensor(f"{split}.ends").tolist()
        labels = file.get_tensor(f"{split}.labels")
    begins = [0, *ends[:-1]]
    pictures = [_picture(content[begin:end], side) for begin, end in zip(begins, ends, strict=True)]
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous(), labels


def label_names(path: Path) -> Sequence[str]:
    """The names of the classes."""
    with safe_open(path, "pt") as file:
        return str(file.metadata()["labels"]).split(",")


def _picture(raw: bytes, side: int) -> np.ndarray:
    """(side, side, 3): the short side resized, the middle square cut out, as the loaded model does it."""
    with Image.open(io.BytesIO(raw)) as image:
        picture = image.convert("RGB")
    scale = side / min(picture.size)
    width, height = (max(side, round(length * scale)) for length in picture.size)
    picture = picture.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - side) // 2, (height - side) // 2
    return np.asarray(picture.crop((left, top, left + side, top + side)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="birds-112.tar.gz, or its folder")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="pictures of each split, evenly spread")
    args = parser.parse_args()
    path = pack(args.data, args.out, args.limit)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {', '.join(label_names(path))}")


if __name__ == "__main__":
    main()
