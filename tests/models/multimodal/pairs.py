"""Image-text classifiers for tests: known causes, tiny random networks, and tiny ones of transformers."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import numpy as np
import torch
from families import tokenizer_of
from torch import nn

import rationales

SIDE = 24
TEXTS = ("I did not like the soup", "the old stone bridge was calm", "a brilliant joke, suddenly")
LABELS = ("absent", "found")


def preprocess(image):
    """A PIL image as what the models read."""
    return torch.from_numpy(np.asarray(image.resize((SIDE, SIDE)), dtype=np.float32) / 255).permute(2, 0, 1)


def scene(top=3, left=12, side=8, seed=0, colour=(230, 20, 30)):
    """A grey noisy picture with a square, by default red."""
    pixels = np.random.default_rng(seed).integers(90, 150, (SIDE, SIDE, 1), dtype=np.uint8).repeat(3, 2)
    pixels[top : top + side, left : left + side] = colour
    return pixels


class RedAndWord(nn.Module):
    """Evidence for the second class: a red square in the picture, a keyword in the text, with a weight for each.

    The logit of `found` is strength (picture_weight min(red, 1) + word_weight share - 1/2), where `red` counts red
    pixels and is 1 for a square of 8 x 8, and `share` how much of the keyword's embedding is there. With `joint` the
    product of both takes the place of the sum. Every other pixel and word is without any influence.
    """

    def __init__(self, picture_weight=0.5, word_weight=0.5, joint=False, strength=12.0, keyword="bridge"):
        super().__init__()
        tokenizer = tokenizer_of("bert")
        self.embeddings = nn.Embedding(len(tokenizer), len(tokenizer))
        with torch.no_grad():
            self.embeddings.weight.copy_(torch.eye(len(tokenizer)))
        ids = tokenizer(keyword, add_special_tokens=False)["input_ids"]
        self.register_buffer("keyword", torch.tensor(ids))
        self.weights, self.joint, self.strength = (picture_weight, word_weight), joint, strength
        self.config = SimpleNamespace(id2label=dict(enumerate(LABELS)), pad_token_id=tokenizer.pad_token_id)

    def get_input_embeddings(self):
        return self.embeddings

    def forward(self, pixel_values, input_ids, attention_mask):
        words = self.embeddings(input_ids) * attention_mask[..., None]
        share = words[..., self.keyword].square().sum(1).mean(-1)
        red = (pixel_values[:, 0] - pixel_values[:, 1] - 0.3).relu().flatten(1).sum(1) / 35  # 0.55 x 64
        evidence = red * share if self.joint else self.weights[0] * red + self.weights[1] * share
        logit = self.strength * (evidence - 0.5 * (self.joint or sum(self.weights)))
        return torch.stack([-logit, logit], -1) / 2


def red_and_word(baseline="pad; mean", **options):
    """The model of a known cause."""
    module = RedAndWord(**options).eval()
    return rationales.load(module, (tokenizer_of("bert"), preprocess), baseline=baseline)


class SmallNetwork(nn.Module):
    """A random network of three classes: convolutions and ReLUs, words, attention of the words on the pixels."""

    def __init__(self, width=16):
        super().__init__()
        tokenizer = tokenizer_of("bert")
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.pixels = nn.Sequential(
                nn.Conv2d(3, width, 4, stride=4),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, padding=1),
                nn.Tanh(),
            )
            self.words = nn.Embedding(len(tokenizer), width)
            self.query = nn.Linear(width, width)
            self.norm = nn.LayerNorm(width)
            self.dropout = nn.Dropout(0.5)
            self.classifier = nn.Linear(2 * width, 3)
            with torch.no_grad():
                for weight in self.parameters():
                    if weight.dim() > 1:
                        weight.normal_(0, 0.5)
        self.config = SimpleNamespace(id2label={0: "a", 1: "b", 2: "c"}, pad_token_id=tokenizer.pad_token_id)

    def get_input_embeddings(self):
        return self.words

    def forward(self, pixel_values, input_ids, attention_mask):
        patches = self.pixels(pixel_values).flatten(2).mT
        words = self.words(input_ids)
        attention = (self.query(words) @ patches.mT / 4).softmax(-1)
        states = self.norm(words + attention @ patches) * attention_mask[..., None]
        mean = states.sum(1) / attention_mask.sum(1, keepdim=True)
        return self.classifier(self.dropout(torch.cat([mean, patches.mean(1)], 1)))


def small_model(module=None, **options):
    """The random network as a model."""
    return rationales.load(module or SmallNetwork().eval(), (tokenizer_of("bert"), preprocess), **options)


def tiny_vilt(labels=("yes", "no", "maybe"), images=None):
    """A random ViLT of two layers."""
    from transformers import ViltConfig, ViltForImagesAndTextClassification, ViltForQuestionAnswering

    config = ViltConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        vocab_size=len(tokenizer_of("bert")),
        image_size=SIDE,
        patch_size=8,
        max_position_embeddings=40,
        initializer_range=0.3,
        id2label=dict(enumerate(labels)),
        pad_token_id=tokenizer_of("bert").pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if images is not None:
            config.num_images, config.modality_type_vocab_size = images, images + 1
            return ViltForImagesAndTextClassification(config).eval()
        return ViltForQuestionAnswering(config).eval()


def vilt_processor():
    """The image processor of the tiny ViLT."""
    from transformers import ViltImageProcessorPil

    return ViltImageProcessorPil(size={"shortest_edge": SIDE}, size_divisor=8)


def _clip_parts():
    tokenizer = tokenizer_of("bert")
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 40,
        "bos_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    vision = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": SIDE,
        "patch_size": 8,
    }
    return text, vision


@functools.cache
def tiny(family):
    """A random model of transformers: CLIPModel or BlipForImageTextRetrieval."""
    import transformers

    text, vision = _clip_parts()
    name = {"CLIPModel": "CLIPConfig", "BlipForImageTextRetrieval": "BlipConfig"}[family]
    config = getattr(transformers, name)(text_config=text, vision_config=vision, projection_dim=16)
    if family == "BlipForImageTextRetrieval":
        config.text_config.encoder_hidden_size = 16
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = getattr(transformers, family)(config).eval()
        with torch.no_grad():
            for weight in module.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.2)
    return module


def clip_processor():
    """An image processor for the tiny CLIP."""
    from transformers import CLIPImageProcessorPil

    side = {"height": SIDE, "width": SIDE}
    return CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=side)
