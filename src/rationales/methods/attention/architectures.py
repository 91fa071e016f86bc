"""Where the sub-modules of an encoder are, for every architecture whose inside can be measured.

Supporting a further encoder is one entry here, if its layers consist of the same sub-modules; that its attention is the
usual one is verified in every forward pass (`trace.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    """Names of an encoder's sub-modules; the classifier reads the first token, or the first two."""

    layers: str
    names: LayerNames
    head: tuple[str, ...]  # linear layers from the first token's last state to the logits, activations between them
    norm_first: bool = False  # layer norms before attention and feed-forward network instead of after the residual
    final_norm: str = ""  # layer norm between the last layer and the head
    extra_tokens: int = 1  # of a vision transformer, before its patches: class and distillation token
    second_head: tuple[str, ...] = ()  # the same from the second token's; the logits are the mean of both

    @property
    def readouts(self) -> tuple[tuple[str, ...], ...]:
        """The linear layers from the last state of each token that the classifier reads."""
        return (self.head, self.second_head) if self.second_head else (self.head,)


_ROBERTA = Architecture("roberta.encoder.layer", BERT, ("classifier.dense", "classifier.out_proj"))
_VIT = Architecture("vit.layers", VIT, ("classifier",), norm_first=True, final_norm="vit.layernorm")
_DEIT = replace(_VIT, layers="deit.layers", final_norm="deit.layernorm", extra_tokens=2)
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
    "ViTForImageClassification": _VIT,
    "ViTMSNForImageClassification": _VIT,
    "DeiTForImageClassification": _DEIT,
    "DeiTForImageClassificationWithTeacher": replace(
        _DEIT, head=("cls_classifier",), second_head=("distillation_classifier",)
    ),
}
_HOMES = ("transformers.models.", "rationales.models.text.bert")  # a namesake from elsewhere may compute anything


@dataclass(frozen=True, eq=False)
class Encoder:
    """The sub-modules of an encoder with a classifier."""

    layers: Sequence[EncoderLayer]
    heads: int
    readouts: Sequence[Sequence[nn.Linear]]  # of each token that the classifier reads; empty unless they are read
    read_tokens: int  # how many tokens the classifier reads, from the first on
    is_stock: bool  # a known class with its own head; of others it is verified that no further tokens are read
    norm_first: bool
    final_norm: nn.LayerNorm | None
    extra_tokens: int


def check_batch(method: str, batch: Batch) -> None:
    """Raise an OptionError for inputs other than texts and images."""
    if batch.grid is None and batch.pixel_grid is not None:
        raise OptionError(f"{method} reads the attention of encoders of texts or of images, not of both; {INSTEAD}")
    if not isinstance(batch, TextBatch) and batch.grid is None:
        raise OptionError(f"{method} reads the attention between words or patches, and sounds have neither; {INSTEAD}")


def find_encoder(method: str, module: nn.Module, reads_weights: bool = False, reads_head: bool = False) -> Encoder:
    """The encoder of a classifier; a ModelError, with the reason, if it is none that is known, nor a subclass of one.

    `reads_weights`: whether the layers must be plain ones, whose weights can be read; `reads_head`: the classifier too.
    """
    kind = type(module)
    base = next((b for b in kind.__mro__ if b.__name__ in ARCHITECTURES and b.__module__.startswith(_HOMES)), None)
    if base is None:
        known = ", ".join(name for name in ARCHITECTURES if name != "BertClassifier")
        raise NotApplicableError(
            f"{method} needs the attention weights of an encoder, and where {kind.__name__} has them is not known (a "
            f"convolutional or recurrent network, a decoder, or a module of your own?); it works with these classes of "
            f"transformers: {known}; otherwise {INSTEAD}"
        )
    architecture, resolve = ARCHITECTURES[base.__name__], partial(_submodule, method, plain=reads_weights)
    layers = [
        encoder_layer(layer, architecture.names, resolve) for layer in resolve(module, architecture.layers).children()
    ]
    config: Any = module.config
    if getattr(config, "is_decoder", False):
        raise ModelError(f"{method} is for encoders, and this {kind.__name__} is a decoder (is_decoder); {INSTEAD}")
    named_readouts = architecture.readouts if reads_head else ()
    return Encoder(
        layers,
        config.num_attention_heads,
        readouts=[[resolve(module, name) for name in names] for names in named_readouts],
        read_tokens=len(architecture.readouts),
        is_stock=kind is base and _has_own_head(module, architecture),
        norm_first=architecture.norm_first,
        final_norm=resolve(module, architecture.final_norm) if architecture.final_norm else None,
        extra_tokens=architecture.extra_tokens,
    )


def _has_own_head(module: nn.Module, architecture: Architecture) -> bool:
    """Whether the classifier consists of the modules that its class makes, in modules of the class's own package."""
    modules = dict(module.named_modules())
    linear_names = [name for names in architecture.readouts for name in names]
    parents = {name.rpartition(".")[0] for name in linear_names} - {""}
    homes = all(name in modules and type(modules[name]).__module__.startswith(_HOMES) for name in parents)
    return homes and all(isinstance(modules.get(name), nn.Linear) for name in linear_names)


def _submodule(method: str, module: nn.Module, name: str, plain: bool = True) -> Any:
    """The sub-module of this name; `plain`: it must be a layer whose weights can be read."""
    try:
        submodule = module.get_submodule(name)
    except AttributeError as error:
        raise ModelError(f"{method} expects {name} in {type(module).__name__}: {error}; {INSTEAD}") from error
    if not plain or isinstance(submodule, nn.ModuleList):
        return submodule
    kind = type(submodule).__name__
    if not isinstance(submodule, (nn.Linear, nn.LayerNorm)):
        raise ModelError(
            f"{method} reads weights, and {name} is a {kind}, not a plain layer (a quantised or adapted model?); load "
            f"it in full precision, or {INSTEAD}"
        )
    weight: Any = submodule.weight
    is_linear = isinstance(submodule, nn.Linear)
    shape: Any = (submodule.out_features, submodule.in_features) if is_linear else submodule.normalized_shape
    if weight is None or not weight.is_floating_point() or tuple(weight.shape) != tuple(shape):
        stored = "none" if weight is None else f"{str(weight.dtype).removeprefix('torch.')} of {tuple(weight.shape)}"
        raise ModelError(
            f"{method} reads weights, and those of {name}, a {kind}, are {stored}, not real numbers of {tuple(shape)} "
            f"(a quantised model?); load it in full precision, or {INSTEAD}"
        )
    return submodule
