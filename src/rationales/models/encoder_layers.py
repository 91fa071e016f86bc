"""The layers of BERT-like encoders: the names of their sub-modules, and the sub-modules of a layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from torch import nn


@dataclass(frozen=True)
class LayerNames:
    """The names of a layer's sub-modules."""

    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    attention_output: str = "attention.output.dense"
    attention_norm: str = "attention.output.LayerNorm"
    intermediate: str = "intermediate.dense"
    output: str = "output.dense"
    output_norm: str = "output.LayerNorm"
    activation: str = "intermediate.intermediate_act_fn"
    heads: str = "attention.self.num_attention_heads"


BERT = LayerNames()
DISTILBERT = LayerNames(
    *("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm"),
    *("ffn.lin1", "ffn.lin2", "output_layer_norm", "ffn.activation", "attention.n_heads"),
)


@dataclass(frozen=True, eq=False)
class EncoderLayer:
    """The sub-modules of a layer that have weights, and the layer itself."""

    module: nn.Module
    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    attention_output: nn.Linear
    attention_norm: nn.LayerNorm
    intermediate: nn.Linear
    output: nn.Linear
    output_norm: nn.LayerNorm


ROLES = tuple(spec.name for spec in fields(EncoderLayer) if spec.name != "module")


def encoder_layer(
    module: nn.Module, names: LayerNames, submodule: Callable[[nn.Module, str], Any] = nn.Module.get_submodule
) -> EncoderLayer:
    """The sub-modules of a layer; `submodule` looks up a name in it, and may refuse what it finds."""
    paths = asdict(names)
    return EncoderLayer(module, **{role: submodule(module, paths[role]) for role in ROLES})
