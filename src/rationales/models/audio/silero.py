"""Silero VAD: voice activity detection with a small network whose weights come from a PyPI package.

The package itself is never imported: its weights (safetensors) are loaded into the network below. The network reads
chunks of 32 milliseconds, each with the last 4 milliseconds of the chunk before, as magnitudes of a short-time Fourier
transform; four convolutions turn a chunk into a vector, an LSTM runs over the chunks, and each gets a logit.
"""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from rationales.errors import ModelError

SAMPLE_RATE = 16_000
CHUNK, CONTEXT = 512, 64  # samples
PACKAGE = "silero_vad"  # on PyPI with a dash; only its file is read
VERSION = "6.2.3"
LABELS = ("no speech", "speech")
SHARPNESS = 8.0  # exponent of the power mean over chunks: 1 is the mean, infinity the maximum
_FILE = "data/silero_vad_16k.safetensors"
_MIN_POWER = 1e-20  # the square root has no gradient at 0, where silence is


class SileroVad(nn.Module):
    """(S, samples) at 16 kHz -> (S, 1): the logit of speech anywhere in the sound."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm = nn.LSTM(128, 128, batch_first=True)
        self.final_conv = nn.Conv1d(128, 1, 1)
        self.eval()

    def forward(self, samples: Tensor) -> Tensor:
        """(S, samples) -> (S, 1): the logit of the power mean of all chunks' probabilities.

        p = (mean of p_t ^ SHARPNESS) ^ (1 / SHARPNESS): near the maximum, but every chunk has a gradient.
        Computed in logarithms, so that small probabilities do not underflow.
        """
        log_p = functional.logsigmoid(self.chunks(samples))
        pooled = (torch.logsumexp(SHARPNESS * log_p, 1) - math.log(log_p.shape[1])) / SHARPNESS
        pooled = pooled.clamp(max=-1e-7)
        return (pooled - torch.log(-torch.expm1(pooled)))[:, None]

    def chunks(self, samples: Tensor) -> Tensor:
        """(S, samples) -> (S, chunks): the logit of speech in each chunk; the last one is padded with silence."""
        padded = functional.pad(samples, (CONTEXT, -samples.shape[1] % CHUNK))
        chunks = padded.unfold(1, CHUNK + CONTEXT, CHUNK)  # (S, chunks, 576)
        vectors = self._vectors(chunks.flatten(0, 1)).view(*chunks.shape[:2], -1)
        with torch.backends.cudnn.flags(enabled=False):  # no backward pass in evaluation mode
            hidden_states, _ = self.lstm(vectors)
        logits: Tensor = self.final_conv(hidden_states.relu().transpose(1, 2))
        return logits[:, 0]

    def _vectors(self, chunks: Tensor) -> Tensor:
        """(R, 576) -> (R, 128): one vector for each chunk."""
        waves = self.stft_conv(functional.pad(chunks[:, None], (0, 64), mode="reflect"))  # (R, 258, 4)
        real, imaginary = waves[:, :129], waves[:, 129:]
        features: Tensor = (real.square() + imaginary.square()).clamp(min=_MIN_POWER).sqrt()
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            features = layer(features).relu()
        return features[..., 0]


def load_silero() -> SileroVad:
    """The network with its weights."""
    path = silero_weights()
    if path is None:
        raise ModelError(f"silero-vad needs its weights: pip install silero-vad=={VERSION}")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    module = SileroVad()
    try:
        weights = load_file(path)
        module.load_state_dict({_translated_key(name): value for name, value in weights.items()})
    except (OSError, SafetensorError, RuntimeError) as error:
        message = f"the weights in {path} are damaged or of another version; install silero-vad=={VERSION}"
        raise ModelError(message) from error
    return module


def silero_weights() -> Path | None:
    """The file with the weights, or None where their package is not installed; the package is not imported."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = (spec.submodule_search_locations or []) if spec is not None else []
    return next((Path(folder) / _FILE for folder in folders if (Path(folder) / _FILE).is_file()), None)


def _translated_key(name: str) -> str:
    """`lstm_cell.weight_ih` of an LSTM cell is `lstm.weight_ih_l0` of an LSTM."""
    return name.replace("lstm_cell.", "lstm.") + "_l0" if name.startswith("lstm_cell.") else name
