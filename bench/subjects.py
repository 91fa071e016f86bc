"""What is explained in the benchmarks of speed: models of known size with random weights, texts and pictures.

Nothing is downloaded. Random models use the tokenizer of the embedded model. Texts consist of five passages written for
this file; `reviews` makes texts as long as the 199 test reviews of ERASER where these are not available.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from quality import read_reviews

import rationales
from rationales.models.image.model import ImageModel
from rationales.models.text.model import TextModel
from rationales.models.text.tokens import TextInput

# layers, hidden size, heads, inner size
SIZES = {"bert-base": (12, 768, 12, 3072), "bert-mini": (6, 384, 12, 1536), "bert-tiny": (2, 64, 2, 128)}
SIZES_OF_PICTURES = ("resnet-50", "vit-b-16")
BASELINES = ("black", "white", "mean")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Words of the 199 ERASER test reviews: the shortest, every tenth per cent, the longest.
REVIEW_WORDS = (196, 419, 541, 603, 655, 710, 792, 911, 993, 1243, 2122)
# Five passages of our own, 40 words each.
PROSE = """
The first hour is slow and rather pleased with itself, but then the old lighthouse keeper opens his door and the whole
film wakes up. I laughed, I worried, and the last, quiet scene on the beach is honestly wonderful. Nothing in this
thriller makes sense. The detective explains every clue twice, the villain sighs through his lines, and the chase across
the harbour looks cheap. A dull, lazy script that wastes two good actors and one fine old city. My sister dragged me to
this comedy and I expected very little. It is clumsy in places, and one joke about a goat goes on forever, yet the cast
is so warm that both of us left the cinema smiling. A beautiful looking picture with an empty heart. Snow falls, violins
play, people stare out of windows, and after two hours I still did not know what any of them wanted. Pretty, cold, and
far too long for my taste. They took a simple idea, a bus driver who finds a letter, and trusted it. No explosions, no
speeches, only small honest moments and a superb lead. The ending is not happy, but it is exactly right and quietly
moving.
"""
WORDS = PROSE.split()
PASSAGE = 40  # words


def untyped() -> Any:
    """transformers, whose constructors have no types."""
    return transformers


def random_text(size: str, device: torch.device, classes: int = 2, **fields: Any) -> TextModel:
    """A BERT of this size with random weights; `fields` go to `rationales.load`."""
    layers, hidden, heads, inner = SIZES[size]
    embedded: Any = rationales.load()
    tokenizer, library = embedded.tokenizer, untyped()
    config = library.BertConfig(
        vocab_size=max(len(tokenizer), 30522 if size == "bert-base" else 0),
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=inner,
        num_labels=classes,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = library.BertForSequenceClassification(config).eval()
    model = rationales.load(module.to(device), tokenizer, **fields)
    assert isinstance(model, TextModel)
    return model


def text_model(name: str, device: torch.device) -> TextModel | None:
    """A random model by its size, or a listed model by its name; None if that is not installed."""
    if name in SIZES:
        return random_text(name, device)
    available = {entry.name: entry.available for entry in rationales.list_models()}
    if name in available and not available[name]:
        return None
    model = rationales.load(name, device=str(device))
    assert isinstance(model, TextModel)
    return model


def config_of(model: TextModel | ImageModel) -> Any:
    """The configuration of the module that is explained."""
    module: Any = model.networks[0].module if isinstance(model, TextModel) else model.module
    return module.config


def words(count: int, seed: int = 0) -> str:
    """A text of `count` words that starts at passage number `seed`, one word later for every cycle through all."""
    first = PASSAGE * seed + PASSAGE * seed // len(WORDS)
    return " ".join(WORDS[(first + i) % len(WORDS)] for i in range(count))


def tokens(model: TextModel, text: str) -> int:
    """Number of tokens that the model reads for a text, including special tokens and overlaps of its segments."""
    return sum(len(row.ids) for row in model.encode([TextInput(text)])[0].rows)


def of_length(model: TextModel, length: str, seed: int = 0) -> str:
    """A text of `40w` words, or of at least `160` tokens with the two special ones, ending with a whole word."""
    if length.endswith("w"):
        return words(int(length[:-1]), seed)
    count, min_tokens = 1, int(length)
    while len(model.tokenizer(words(count, seed))["input_ids"]) < min_tokens:
        count += 1
    return words(count, seed)


def reviews(count: int, data: Path | None) -> list[str]:
    """The first of ERASER's test reviews, or texts whose lengths are distributed as theirs."""
    if data is not None:
        return [review.text for review in read_reviews(data, "test")][:count]
    share = (np.random.default_rng(0).permutation(count) + 0.5) / count
    size = np.interp(share, np.linspace(0, 1, len(REVIEW_WORDS)), REVIEW_WORDS)
    return [words(round(count), seed) for seed, count in enumerate(size)]


def random_image(kind: str, side: int, device: torch.device, baselines: tuple[str, ...] = BASELINES) -> ImageModel:
    """A ResNet-50 or a ViT-B/16 of 1,000 classes with random weights, for pictures of side x side pixels."""
    library = untyped()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if kind == "resnet-50":
            module = library.ResNetForImageClassification(library.ResNetConfig(num_labels=1000))
        else:
            module = library.ViTForImageClassification(library.ViTConfig(num_labels=1000, image_size=side))
    shift, scale = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))

    def prepared(picture: Image.Image) -> torch.Tensor:
        resized = np.asarray(picture.resize((side, side)), dtype=np.float32) / 255
        return (torch.from_numpy(resized).permute(2, 0, 1) - shift) / scale

    model = rationales.load(module.eval().to(device), prepared, baseline=list(baselines))
    assert isinstance(model, ImageModel)
    return model


def pictures(count: int, side: int) -> list[np.ndarray]:
    """(side, side, 3) each: smoothed coarse noise."""
    source = np.random.default_rng(0)
    coarse = [Image.fromarray(source.integers(0, 256, (8, 8, 3), dtype=np.uint8)) for _ in range(count)]
    return [np.asarray(picture.resize((side, side), Image.Resampling.BICUBIC)) for picture in coarse]
