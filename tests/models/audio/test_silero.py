"""Silero VAD: our network is the published one, and with its weights it hears what sounds like speech."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from reference.sound import voice_activity

import rationales
from rationales.errors import ModelError
from rationales.models.audio import silero
from rationales.models.audio.silero import SHARPNESS, SileroVad, load_silero, silero_weights
from rationales.models.catalogue import list_models

needs_weights = pytest.mark.skipif(silero_weights() is None, reason="the package silero-vad is not installed")


def small(seed=0):
    """The network with weights of its own."""
    torch.manual_seed(seed)
    module = SileroVad()
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.05)
    return module.requires_grad_(False)


def published(module):
    """The weights under the names of the published file."""
    return {
        name.replace("lstm.", "lstm_cell.").removesuffix("_l0") if name.startswith("lstm.") else name: value
        for name, value in module.state_dict().items()
    }


class TestNetwork:
    @pytest.mark.parametrize("length", [512, 1024, 1500, 3000, 100])
    def test_chunks_are_those_of_the_published_recurrence(self, length):
        module = small()
        samples = torch.randn(length, generator=torch.Generator().manual_seed(1))
        probability = module.chunks(samples[None])[0].sigmoid()
        assert probability.tolist() == pytest.approx(voice_activity(published(module), samples), abs=2e-6)

    def test_the_whole_is_the_power_mean_of_its_chunks(self):
        module = small()
        samples = torch.randn(2, 4000, generator=torch.Generator().manual_seed(2))
        chunks = module.chunks(samples).sigmoid().double()
        expected = chunks.pow(SHARPNESS).mean(1).pow(1 / SHARPNESS)
        assert module(samples).sigmoid()[:, 0].tolist() == pytest.approx(expected.tolist(), abs=1e-6)

    def test_the_mean_lies_between_the_plain_mean_and_the_largest(self):
        module = small()
        module.chunks = lambda _: torch.tensor([[-4.0] * 9 + [4.0]])
        probability = float(module(torch.zeros(1, 1)).sigmoid())
        high, low = 1 / (1 + math.exp(-4)), 1 / (1 + math.exp(4))
        assert (9 * low + high) / 10 < probability < high
        assert probability == pytest.approx(high * 0.1 ** (1 / SHARPNESS), abs=1e-3)

    @pytest.mark.parametrize("logit", [-200.0, 200.0])
    def test_certainty_stays_finite(self, logit):
        module = small()
        chunks = torch.full((1, 5), logit, requires_grad=True)
        module.chunks = lambda _: chunks
        probability = module(torch.zeros(1, 1))
        (gradient,) = torch.autograd.grad(probability.sum(), chunks)
        assert torch.isfinite(probability).all()
        assert torch.isfinite(gradient).all()

    def test_silence_has_a_slope(self):
        samples = torch.zeros(1, 2000, requires_grad=True)
        (gradient,) = torch.autograd.grad(small()(samples).sum(), samples)
        assert torch.isfinite(gradient).all()

    def test_without_its_package_it_says_what_to_install(self, monkeypatch):
        monkeypatch.setattr(silero, "silero_weights", lambda: None)
        with pytest.raises(ModelError, match=r"pip install silero-vad==6\.2\.3"):
            load_silero()

    def test_damaged_weights(self, monkeypatch, tmp_path):
        (tmp_path / "weights").write_bytes(b"nothing")
        monkeypatch.setattr(silero, "silero_weights", lambda: tmp_path / "weights")
        with pytest.raises(ModelError, match="damaged or of another version"):
            load_silero()

    def test_it_is_listed(self):
        assert "silero-vad" in [model.name for model in list_models()]


def voice(seconds=0.16, formants=((730, 90), (1090, 110), (2440, 160)), pitch=120.0, rate=16_000):
    """A vowel: a train of pulses through resonances, rising and falling."""
    count = int(seconds * rate)
    phase = np.cumsum(pitch * (1 + 0.05 * np.sin(2 * np.pi * 3 * np.arange(count) / rate))) / rate
    wave = (np.diff(np.floor(phase), prepend=0) > 0).astype(float)
    for frequency, width in (*((0, 80),), *formants):
        radius, turn = np.exp(-np.pi * width / rate), 2 * np.pi * frequency / rate
        first, second = 2 * radius * np.cos(turn), -(radius**2)
        before, earlier, out = 0.0, 0.0, np.empty(count)
        for i in range(count):
            out[i] = wave[i] + first * before + second * earlier
            before, earlier = out[i], before
        wave = out
    wave = np.diff(wave, prepend=0)
    return wave / np.abs(wave).max() * np.sqrt(np.hanning(count)) * 0.5


def speech():
    """Syllables between 0.8 and 1.84 s of 2.6 s."""
    vowels = [
        ((730, 90), (1090, 110), (2440, 160)),
        ((270, 60), (2290, 100), (3010, 160)),
        ((300, 60), (870, 90), (2240, 150)),
    ]
    samples = np.random.default_rng(0).normal(size=int(2.6 * 16_000)) * 0.001
    for number in range(4):
        start = int((0.8 + 0.26 * number) * 16_000)
        sung = voice(0.2, vowels[number % 3], 125 - 4 * number)
        samples[start : start + len(sung)] += sung
    return samples.astype(np.float32)


@needs_weights
class TestWeights:
    def test_speech_is_told_from_silence_and_noise(self):
        module = load_silero()
        noise = torch.randn(1, 32000, generator=torch.Generator().manual_seed(0)) * 0.05
        with torch.no_grad():
            probabilities = [
                float(module(samples).sigmoid()) for samples in (torch.from_numpy(speech())[None], noise, noise * 0)
            ]
        assert probabilities[0] > 0.7
        assert max(probabilities[1:]) < 0.3

    def test_the_rationale_lies_on_the_syllables(self):
        result = rationales.explain(rationales.load("silero-vad"), (speech(), 16_000))
        assert result.target == "speech"
        middle = (np.arange(len(result.units)) + 0.5) * 0.032
        truth = (middle > 0.8) & (middle < 1.84)
        chosen = result.selected()
        assert (chosen & truth).sum() / (chosen | truth).sum() > 0.6
        of_speech = {name: values["speech"] for name, values in result.probabilities.items()}
        assert of_speech["rationale"] >= 0.9 * of_speech["full"]
        assert of_speech["complement"] < 0.4
