"""Silero VAD: is there speech? A small network with weights from a registry package.

The package's own module is not used: its weights (safetensors) are read into the network below. It hears chunks of 32
milliseconds, each with 4 milliseconds of the one before, as magnitudes of a short Fourier transform; four convolutions
make one vector of a chunk, an LSTM carries what was heard on from chunk to chunk, and a logit comes out of each.
"""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from rationales.errors import ModelError

RATE = 16_000
CHUNK, CONTEXT = 512, 64  # samples
PACKAGE = "silero_vad"  # on the registry with a dash; only its file is read, it is never imported
VERSION = "6.2.3"
LABELS = ("no speech", "speech")
SHARPNESS = 8.0  # of the mean over chunks: 1 is the plain mean, infinity the largest
_FILE = "data/silero_vad_16k.safetensors"
_TINY = 1e-20  # a magnitude has no slope at 0, where silence is


class SileroVad(nn.Module):
    """(S, samples) at 16 kHz -> (S, 1): one logit, of speech somewhere in the sound."""

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

        p = (mean of p_t ^ SHARPNESS) ^ (1 / SHARPNESS): near the largest, but every chunk has a part in it and a slope.
        In logarithms, so that small probabilities do not vanish.
        """
        log_p = functional.logsigmoid(self.chunks(samples))
        pooled = (torch.logsumexp(SHARPNESS * log_p, 1) - math.log(log_p.shape[1])) / SHARPNESS
        pooled = pooled.clamp(max=-1e-7)
        return (pooled - torch.log(-torch.expm1(pooled)))[:, None]

    def chunks(self, samples: Tensor) -> Tensor:
        """(S, samples) -> (S, chunks): the logit of speech in each chunk; what is left of the last one is silent."""
        whole = functional.pad(samples, (CONTEXT, -samples.shape[1] % CHUNK))
        heard = whole.unfold(1, CHUNK + CONTEXT, CHUNK)  # (S, chunks, 576)
        vectors = self._vectors(heard.flatten(0, 1)).view(*heard.shape[:2], -1)
        with torch.backends.cudnn.flags(enabled=False):  # its LSTM has no slopes outside of training
            carried, _ = self.lstm(vectors)
        found: Tensor = self.final_conv(carried.relu().transpose(1, 2))
        return found[:, 0]

    def _vectors(self, heard: Tensor) -> Tensor:
        """(R, 576) -> (R, 128)."""
        waves = self.stft_conv(functional.pad(heard[:, None], (0, 64), mode="reflect"))  # (R, 258, 4)
        real, imaginary = waves[:, :129], waves[:, 129:]
        found: Tensor = (real.square() + imaginary.square()).clamp(min=_TINY).sqrt()
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            found = layer(found).relu()
        return found[..., 0]


def load_silero() -> SileroVad:
    """The network with its weights."""
    path = silero_weights()
    if path is None:
        raise ModelError(f"silero-vad needs its weights: pip install silero-vad=={VERSION}")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    module = SileroVad()
    try:
        found = load_file(path)
        module.load_state_dict({_renamed(name): value for name, value in found.items()})
    except (OSError, SafetensorError, RuntimeError) as error:
        message = f"the weights in {path} are damaged or of another version; install silero-vad=={VERSION}"
        raise ModelError(message) from error
    return module


def silero_weights() -> Path | None:
    """The file with the weights, or None where their package is not installed; the package is not imported."""
    spec = importlib.util.find_spec(PACKAGE)
    places = (spec.submodule_search_locations or []) if spec is not None else []
    return next((Path(place) / _FILE for place in places if (Path(place) / _FILE).is_file()), None)


def _renamed(name: str) -> str:
    """`lstm_cell.weight_ih` is `lstm.weight_ih_l0` of a whole LSTM."""
    return name.replace("lstm_cell.", "lstm.") + "_l0" if name.startswith("lstm_cell.") else name
