"""A service with the embedded model of texts and tiny models of images and sounds, and inputs for it."""

from __future__ import annotations

import base64
import io
import wave

import numpy as np
import torch
from PIL import Image
from torch import nn

import rationales
from rationales.app.limits import Limits
from rationales.app.model_choices import ModelChoices
from rationales.app.service import ExplainService
from rationales.models.image.loading import from_module

SIDE = 24
LIMITS = Limits(characters=4_000, upload_bytes=200_000, pixels=1_000_000, table_rows=5, table_bytes=50_000, queue=20)
HOSTILE_LABEL = '<img src=x onerror="alert(1)">'


class RedDetector(nn.Module):
    """`red` by the mean difference of the red and the green channel."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Conv2d(3, 1, 3, padding=1)
        with torch.no_grad():
            self.look.weight.zero_()
            self.look.weight[0, 0], self.look.weight[0, 1] = 1 / 9, -1 / 9
            self.look.bias.zero_()

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        evidence = 8 * self.look(pixels).relu().flatten(1).mean(1) - 1
        return torch.stack([-evidence, evidence], 1)


def preprocess(image):
    return torch.from_numpy(np.asarray(image.resize((SIDE, SIDE)), dtype=np.float32) / 255).permute(2, 0, 1)


def scene(size=(40, 60)):
    """Grey, with a red square in the left half."""
    pixels = np.full((*size, 3), 120, dtype=np.uint8)
    pixels[5:35, 5:28] = (230, 20, 30)
    return pixels


def png(pixels) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


class Loudness(nn.Module):
    """`loud` by the level of the samples."""

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        evidence = 40 * samples.square().mean(1).sqrt() - 2
        return torch.stack([-evidence, evidence], 1)


def wav(seconds: float = 1.0, rate: int = 8000) -> bytes:
    """A sound that is loud in its middle third and silent otherwise."""
    samples = np.zeros(int(seconds * rate))
    third = len(samples) // 3
    samples[third : 2 * third] = 0.5 * np.sin(2 * np.pi * 440 * np.arange(third) / rate)
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return buffer.getvalue()


def data_url(content: bytes, name: str = "scene.png", kind: str = "image/png") -> str:
    return f"data:{kind};name={name};base64,{base64.b64encode(content).decode()}"


def make_service(limits: Limits = LIMITS) -> ExplainService:
    choices = ModelChoices()
    choices.add("red", from_module(RedDetector().eval(), preprocess, [HOSTILE_LABEL, "red"], "red"))
    choices.add("loud", rationales.load(Loudness().eval(), sample_rate=8000, labels=["quiet", "loud"]))
    return ExplainService(choices, limits)
