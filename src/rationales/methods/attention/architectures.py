"""Where the sub-modules of an encoder are, for every architecture whose inside can be measured.

Supporting a further encoder is one entry here, if its layers consist of the same sub-modules; that its attention is the
usual one is verified in every forward pass (`trace.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from rationales.errors import ModelError, NotApplicableError, OptionError
from rationales.models.batch import Batch
from rationales.models.encoder_layers import BERT, DISTILBERT, EncoderLayer, LayerNames, encoder_layer
from rationales.models.text.batch import TextBatch

VIT = LayerNames(
    *("attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.o_proj", "layernorm_before"),
    *("mlp.fc1", "mlp.fc2", "layernorm_after"),
)
INSTEAD = "use integrated-gradients, occlusion or marc, which need no attention"


@dataclass(frozen=True)
class Architecture:
    """Names of an encoder's sub-modules; the classifier reads the first token."""

    layers: str
    names: LayerNames
    head: tuple[str, ...]  # linear layers from the first token's last state to the logits, activations between them
    norm_first: bool = False  # layer norms before attention and feed-forward network instead of after the residual
    final_norm: str = ""  # layer norm between the last layer and the head
    extra_tokens: int = 1  # of a vision transformer, before its patches: class and distillation token


_ROBERTA = Architecture("roberta.encoder.layer", BERT, ("classifier.dense", "classifier.out_proj"))
ARCHITECTURES: dict[str, Architecture] = {  # by the name of the classifier's class
    "BertForSequenceClassification": Architecture("bert.encoder.layer", BERT, ("bert.pooler.dense", "classifier")),
    "BertClassifier": Architecture("bert.encoder.layer", BERT, ("bert.pooler.dense", "classifier")),
    "RobertaForSequenceClassification": _ROBERTA,
    "XLMRobertaForSequenceClassification": _ROBERTA,
    "CamembertForSequenceClassification": _ROBERTA,
    "ElectraForSequenceClassification": Architecture(
        "electra.encoder.layer", BERT, ("classifier.dense", "classifier.out_proj")
    ),
    "DistilBertForSequenceClassification": Architecture(
        "distilbert.transformer.layer", DISTILBERT, ("pre_classifier", "classifier")
    ),
    "ViTForImageClassification": Architecture(
        "vit.layers", VIT, ("classifier",), norm_first=True, final_norm="vit.layernorm"
    ),
    "DeiTForImageClassification": Architecture(
        "deit.layers", VIT, ("classifier",), norm_first=True, final_norm="deit.layernorm", extra_tokens=2
    ),
}
_HOMES = ("transformers.models.", "rationales.models.text.bert")  # a namesake from elsewhere may compute anything


@dataclass(frozen=True, eq=False)
class Encoder:
    """The sub-modules of an encoder with a classifier."""

    layers: Sequence[EncoderLayer]
    heads: int
    head: Sequence[nn.Linear]
    norm_first: bool
    final_norm: nn.LayerNorm | None
    extra_tokens: int


def check_batch(method: str, batch: Batch) -> None:
    """Raise an OptionError for inputs other than texts and images."""
    if batch.grid is None and batch.pixel_grid is not None:
        raise OptionError(f"{method} reads the attention of encoders of texts or of images, not of both; {INSTEAD}")
    if not isinstance(batch, TextBatch) and batch.grid is None:
        raise OptionError(f"{method} reads the attention between words or patches, and sounds have neither; {INSTEAD}")


def find_encoder(method: str, module: nn.Module) -> Encoder:
    """The encoder of a classifier; a ModelError, with the reason, if it is none that is known."""
    kind = type(module)
    architecture = ARCHITECTURES.get(kind.__name__)
    if architecture is None or not kind.__module__.startswith(_HOMES):
        known = ", ".join(name for name in ARCHITECTURES if name != "BertClassifier")
        raise NotApplicableError(
            f"{method} needs the attention weights of an encoder, and where {kind.__name__} has them is not known (a "
            f"convolutional or recurrent network, a decoder, or a module of your own?); it works with these classes of "
            f"transformers: {known}; otherwise {INSTEAD}"
        )
    layers = [
        encoder_layer(layer, architecture.names, partial(_submodule, method))
        for layer in _submodule(method, module, architecture.layers).children()
    ]
    config: Any = module.config
    if getattr(config, "is_decoder", False):
        raise ModelError(f"{method} is for encoders, and this {kind.__name__} is a decoder (is_decoder); {INSTEAD}")
    final_norm = _submodule(method, module, architecture.final_norm) if architecture.final_norm else None
    head = [_submodule(method, module, name) for name in architecture.head]
    extra_tokens = architecture.extra_tokens
    return Encoder(layers, config.num_attention_heads, head, architecture.norm_first, final_norm, extra_tokens)


def _submodule(method: str, module: nn.Module, name: str) -> Any:
    """The sub-module of this name, which must be one whose weights can be read."""
    try:
        submodule = module.get_submodule(name)
    except AttributeError as error:
        raise ModelError(f"{method} expects {name} in {type(module).__name__}: {error}; {INSTEAD}") from error
    if not isinstance(submodule, (nn.Linear, nn.LayerNorm, nn.ModuleList)):
        raise ModelError(
            f"{method} reads weights, and {name} is a {type(submodule).__name__}, not a plain layer (a quantised or "
            f"adapted model?); load it in full precision, or {INSTEAD}"
        )
    return submodule
