"""Classifiers that read the first token alone: a copy need not run the last layer's inner net for any other.

That net works on each token by itself, so what is left out has no part in the answer: two thirds of a layer's
products are saved, and nothing changes.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

# the classifier, where its layers are, and the part of a layer after which tokens no longer meet
KNOWN = {
    "BertForSequenceClassification": ("bert.encoder.layer", "attention"),
    "RobertaForSequenceClassification": ("roberta.encoder.layer", "attention"),
    "XLMRobertaForSequenceClassification": ("roberta.encoder.layer", "attention"),
    "ElectraForSequenceClassification": ("electra.encoder.layer", "attention"),
    "DistilBertForSequenceClassification": ("distilbert.transformer.layer", "sa_layer_norm"),
}
_DONE = "_rationales_first"


def first_alone(module: nn.Module) -> bool:
    """Let a copy of such a classifier, of transformers' own, end so; False where it is none."""
    name, home = type(module).__name__, type(module).__module__
    if name not in KNOWN or not home.startswith("transformers.models."):
        return False
    if hasattr(module, _DONE):
        return True
    layers, part = KNOWN[name]
    try:
        last: Any = module.get_submodule(layers)
        last = last[-1].get_submodule(part)
    except (AttributeError, IndexError, TypeError):
        return False
    last.register_forward_hook(_cut)
    setattr(module, _DONE, True)
    return True


def _cut(_module: nn.Module, _given: Any, output: Any) -> Any:
    if isinstance(output, Tensor):
        return output[:, :1]
    return (output[0][:, :1], *output[1:])
