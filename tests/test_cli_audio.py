"""Sounds on the command line."""

from __future__ import annotations

import json
import wave

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from rationales.cli import app
from rationales.models.audio import silero
from rationales.models.audio.silero import SileroVad

transformers = pytest.importorskip("transformers")
RUNNER = CliRunner()


@pytest.fixture
def recording(tmp_path):
    """A second of a tone between silences, in two channels."""
    time = np.arange(16000) / 16000
    samples = 0.4 * np.sin(2 * np.pi * 300 * time) * ((time > 0.4) & (time < 0.6))
    with wave.open(str(tmp_path / "tone.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes((np.stack([samples, samples], 1) * 32767).astype("<i2").tobytes())
    return tmp_path / "tone.wav"


@pytest.fixture
def voice_model(tmp_path, monkeypatch):
    """The voice model with weights of no meaning, where its package would have them."""
    from safetensors.torch import save_file

    torch.manual_seed(0)
    state = {
        name.replace("lstm.", "lstm_cell.").removesuffix("_l0") if name.startswith("lstm.") else name: value
        for name, value in SileroVad().state_dict().items()
    }
    save_file({name: value.contiguous() for name, value in state.items()}, tmp_path / "weights.safetensors")
    monkeypatch.setattr(silero, "silero_weights", lambda: tmp_path / "weights.safetensors")


def run(*arguments):
    return RUNNER.invoke(app, ["explain", *map(str, arguments)])


def test_a_sound_is_explained_with_the_voice_model(recording, voice_model, tmp_path):
    pytest.importorskip("PIL")
    outputs = [tmp_path / name for name in ("r.html", "r.png", "r.json")]
    done = run(
        "--audio",
        recording,
        "--json",
        "--set",
        "steps=3",
        "--html",
        outputs[0],
        "--png",
        outputs[1],
        "--save",
        outputs[2],
    )
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["model"] == "silero-vad"
    assert data["units"] == {"count": 32, "seconds": 0.032, "duration": 1.0}
    assert data["name"] == "tone.wav"
    assert "info: 2 channels were averaged into one" in done.stderr
    assert all(path.stat().st_size > 500 for path in outputs)
    result = run("--audio", recording, "--set", "steps=3")
    assert "Sound of 1.00 s" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a text", "--audio", "{}"), "give one input"),
        (("--image", "a.png", "--audio", "{}"), "give one input"),
        (("--audio", "{}", "--model", "embedded"), "embedded is a model of texts, not sounds"),
        (("a text", "--model", "silero-vad"), "silero-vad is a model of sounds, so give --audio"),
        (("--audio", "none.wav"), "there is no file none.wav"),
    ],
)
def test_mistakes_are_told_in_one_line(recording, voice_model, arguments, message):
    done = run(*(argument.format(recording) for argument in arguments))
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_the_package_the_command_says_what_to_install(recording, monkeypatch):
    monkeypatch.setattr(silero, "silero_weights", lambda: None)
    done = run("--audio", recording)
    assert done.exit_code == 2
    assert "pip install silero-vad==6.2.3" in done.stderr
