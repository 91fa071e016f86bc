"""Slow, literal versions of what is done to sounds."""

from __future__ import annotations

import torch
from torch import Tensor


def voice_activity(weights: dict[str, Tensor], samples: Tensor) -> list[float]:
    """Silero VAD chunk by chunk: 64 samples of the one before, magnitudes, four convolutions, an LSTM cell.

    weights: under the names of the published file. samples: (n,).
    """
    conv, cell = torch.nn.functional.conv1d, torch.nn.LSTMCell(128, 128)
    cell.load_state_dict({name.split(".")[1]: value for name, value in weights.items() if name.startswith("lstm_cell")})
    state = (torch.zeros(1, 128), torch.zeros(1, 128))
    before, probabilities = torch.zeros(64), []
    for start in range(0, len(samples), 512):
        chunk = samples[start : start + 512]
        chunk = torch.cat([chunk, torch.zeros(512 - len(chunk))])
        window = torch.cat([before, chunk])
        window = torch.cat([window, window[-65:-1].flip(0)])  # mirrored at the end
        waves = conv(window[None, None], weights["stft_conv.weight"], stride=128)
        value = torch.sqrt(waves[:, :129] ** 2 + waves[:, 129:] ** 2)
        for number, stride in ((1, 1), (2, 2), (3, 2), (4, 1)):
            weight, bias = weights[f"conv{number}.weight"], weights[f"conv{number}.bias"]
            value = torch.relu(conv(value, weight, bias, stride=stride, padding=1))
        state = cell(value[:, :, 0], state)
        logit = conv(torch.relu(state[0])[..., None], weights["final_conv.weight"], weights["final_conv.bias"])
        probabilities.append(float(torch.sigmoid(logit).detach()))
        before = chunk[-64:]
    return probabilities
