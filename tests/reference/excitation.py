"""Excitation backpropagation neuron by neuron (Zhang et al. 2016, Eq. 2 to 5), for layers given as matrices."""

from __future__ import annotations

import torch


def matrix_of(linear, shape):
    """(outputs, inputs): the weights of any linear function of one row with inputs of this shape, read off a basis."""
    inputs = torch.Size(shape).numel()
    with torch.no_grad():
        zero = linear(torch.zeros(1, *shape, dtype=torch.float64)).flatten()
        basis = torch.eye(inputs, dtype=torch.float64).view(inputs, 1, *shape)
        return torch.stack([linear(vector).flatten() - zero for vector in basis], 1)


def carried_back(probability, activations, weights):
    """P(a_j) = sum_i P(y_i) a_j w+_ij / sum_j a_j w+_ij; `weights` (outputs, inputs), `activations` (inputs,)."""
    result = [0.0] * len(activations)
    lowest = min(0.0, *(float(value) for value in activations))
    values = [float(value) - lowest for value in activations]
    for i, row in enumerate(weights):
        drives = [values[j] * max(float(weight), 0.0) for j, weight in enumerate(row)]
        total = sum(drives)
        if total > 0:
            for j, drive in enumerate(drives):
                result[j] += float(probability[i]) * drive / total
    return torch.tensor(result, dtype=torch.float64)
