"""Attributive Masking Learning as the paper writes it (Barkan et al. 2024, Eq. 1 to 7): loops and plain numbers."""

from __future__ import annotations

import copy
import math

import torch


def masked_input(attribution, words, mask):
    """Eq. 3: a list of token vectors, each blended with the mask vector."""
    return [a * x + (1 - a) * mask for a, x in zip(attribution, words, strict=True)]


def prediction_loss(masked_prediction, y):
    """Eq. 5."""
    return -sum(y[j] * math.log(masked_prediction[j]) for j in range(len(y)))


def inverse_loss(inverse_prediction, y):
    """Eq. 6; y is the class with the highest probability."""
    label = max(range(len(y)), key=lambda j: y[j])
    return -math.log(1 - inverse_prediction[label])


def attribution_loss(attribution):
    """Eq. 7."""
    return -sum(math.log(1 - a) for a in attribution) / len(attribution)


def prediction_token(z_0, z, prediction):
    """z_v of section 3.3."""
    return z_0 + sum(p * z_j for p, z_j in zip(prediction, z, strict=True))


def attribution_map(network, ids, prediction):
    """Eq. 1 for one text: the encoder reads the words and the prediction token, and the head every token's state."""
    words = network.encoder.get_input_embeddings()(torch.tensor(ids))
    token = prediction_token(network.prediction_embedding, network.class_embeddings, prediction)
    states = network.encoder(inputs_embeds=torch.stack([*words, token])[None]).last_hidden_state[0]
    return [float(torch.sigmoid(network.head_output(torch.tanh(network.head_hidden(state))))) for state in states[:-1]]


def metric(probability, scores, name):
    """Appendix A.5 for one text; probability(kept word numbers, how) is the model's for the explained class."""
    order, n = sorted(range(len(scores)), key=lambda j: -scores[j]), len(scores)
    full = probability(list(range(n)), "delete")

    def value(level):
        count = math.floor(level * n + 1e-9)
        best, remaining = sorted(order[:count]), sorted(order[count:])
        if count == 0:
            return 0.0
        if name.endswith("sufficiency"):
            return full - probability(best, "delete")
        if name.endswith("comprehensiveness"):
            return full - probability(remaining, "delete")
        return math.log(probability(remaining, "mask")) - math.log(full)

    return sum(value(level) for level in (0.01, 0.05, 0.1, 0.2, 0.5)) / 6 if name.startswith("aopc") else value(0.2)


def finetune_copies(masker, batches, targets, steps, learning_rate):
    """fAML one input after the other: a deep copy of the network for each, tuned but for its embeddings."""
    maps, losses = [], []
    for batch, target in zip(batches, targets, strict=True):
        network = copy.deepcopy(masker.network).requires_grad_(False)
        linear = (torch.nn.Linear, torch.nn.LayerNorm)
        tuned = [weight for module in network.modules() if isinstance(module, linear) for weight in module.parameters()]
        for weight in tuned:
            weight.requires_grad_(True)
        optimiser = torch.optim.Adam(tuned, lr=learning_rate)
        windows, problem, settings = masker.windows(batch), masker.problem(batch, target), masker.card.losses
        input_losses = []
        for step in range(steps + 1):
            optimiser.zero_grad()
            attribution = network(windows, problem.y, settings.merge)
            loss = problem.losses(attribution, settings, step).sum()
            input_losses.append(float(loss.detach()))
            if step < steps:
                loss.backward()
                optimiser.step()
        maps.append(attribution.detach()[0])
        losses.append(input_losses)
    return maps, losses
