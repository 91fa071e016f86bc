"""Small stand-ins for the files that the documentation's examples read: texts, tables, photographs, models, a sound."""

from __future__ import annotations

import csv
import json
import wave
from pathlib import Path

import numpy as np
from families import tiny
from language_models import tiny_language_model

REVIEWS = [
    ("A warm, funny and kind film. I would watch it again tomorrow.", "positive"),
    ("Dull from the first minute, and the ending is lazy.", "negative"),
    ("The cast is wonderful, and the songs stay with you.", "positive"),
    ("A careless waste of two hours.", "negative"),
]
PHOTOGRAPHS = 120
SENTENCES = 300
RATE = 16000


def write_files(folder: Path) -> Path:
    """Write all of them into a folder."""
    _texts(folder)
    _tables(folder)
    _models(folder)
    _language_model(folder)
    _images(folder)
    _pairs(folder)
    _sound(folder / "voice.wav")
    return folder


def _texts(folder: Path) -> None:
    for name, (text, _) in zip(("review.txt", "a.txt", "b.txt"), REVIEWS, strict=False):
        (folder / name).write_text(text + "\n", encoding="utf-8")
    (folder / "my_model.py").write_text(
        "def make(labels):\n"
        "    from rationales.groundtruth.networks.resnet import ResNet\n"
        "    return ResNet(labels, (1, 1), 8)\n",
        encoding="utf-8",
    )


def _language_model(folder: Path) -> None:
    module, tokenizer = tiny_language_model("llama", max_position_embeddings=512)
    module.save_pretrained(folder / "my-language-model")
    tokenizer.save_pretrained(folder / "my-language-model")
    (folder / "prompt.txt").write_text("Review: {text}\nSentiment:\n", encoding="utf-8")


def _tables(folder: Path) -> None:
    lines = [{"text": text, "label": label, "spans": [[0, text.index(" ")]]} for text, label in REVIEWS]
    (folder / "my-texts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for name, header in (
        ("texts.csv", ["text", "label"]),
        ("my-texts.csv", ["text", "label"]),
        ("survey.csv", ["answer", "class"]),
    ):
        _write_csv(folder / name, header, REVIEWS)
    _write_csv(folder / "reviews.csv", ["text", "review", "label"], [(text, text, label) for text, label in REVIEWS])
    rng = np.random.default_rng(0)
    words = np.array(["bread", "sea", "owl", "film", "heart", "cup", "hill", "door", "song", "lamp"])
    sentences = [(" ".join(rng.choice(words, 9)), "left" if number % 2 else "right") for number in range(SENTENCES)]
    _write_csv(folder / "sentences.csv", ["text", "label"], sentences)


def _write_csv(path: Path, header: list[str], rows: list[tuple[str, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def _models(folder: Path) -> None:
    classes = {
        "path-or-hub-id": ["negative", "positive"],
        "my-model": ["negative", "positive"],
        "model-a": ["negative", "positive"],
        "model-b": ["negative", "positive"],
        "my-encoder": ["negative", "positive"],
        "my-nli-model": ["entailment", "neutral", "contradiction"],
    }
    for seed, (name, labels) in enumerate(classes.items()):
        module, tokenizer = tiny("bert", labels=len(labels), seed=seed)
        module.config.id2label = dict(enumerate(labels))
        module.config.label2id = {label: number for number, label in enumerate(labels)}
        module.save_pretrained(folder / name)
        tokenizer.model_max_length = 64
        tokenizer.save_pretrained(folder / name)


def _images(folder: Path) -> None:
    from PIL import Image
    from skimage import data

    Image.fromarray(data.chelsea()).save(folder / "cat.jpg")
    Image.fromarray(data.coffee()).save(folder / "cup.jpg")
    rng = np.random.default_rng(0)
    for number in range(PHOTOGRAPHS):
        home = folder / "photos" / ("owl" if number % 2 else "tern")
        home.mkdir(parents=True, exist_ok=True)
        colours = rng.integers(40, 216, (4, 4, 3)).astype(np.uint8)
        Image.fromarray(colours).resize((112, 112), Image.Resampling.BICUBIC).save(home / f"{number:03}.png")


def _pairs(folder: Path) -> None:
    """A picture of shapes, and a network of pictures with captions that was not trained."""
    from PIL import Image

    from rationales.groundtruth.captioned_shapes import LABELS, captioned_pictures
    from rationales.groundtruth.networks.vocabulary import word_tokenizer
    from rationales.models.multimodal.pair_network import PairConfiguration, PairNetwork

    pictures = captioned_pictures(40)
    Image.fromarray(pictures[1].pixels).save(folder / "shapes.png")
    tokenizer = word_tokenizer([picture.caption for picture in pictures])
    PairNetwork(PairConfiguration(len(tokenizer), dict(enumerate(LABELS)))).save(folder / "shapes-match", tokenizer)


def _sound(path: Path) -> None:
    time = np.arange(2 * RATE) / RATE
    samples = 0.4 * np.sin(2 * np.pi * 1000 * time) * ((time > 0.8) & (time < 1.2))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
