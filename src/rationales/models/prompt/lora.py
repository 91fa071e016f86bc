"""Low-rank adapters (LoRA, Hu et al. 2021) of a causal language model, for tuning it to a prompt."""

from __future__ import annotations

from typing import Any

from torch import nn

from rationales.errors import ModelError
from rationales.models.prompt.gguf_file import require

ATTENTION_LAYERS = ("q_proj", "v_proj", "c_attn", "qkv_proj", "query_key_value")  # names in the usual architectures


def with_lora(language_model: nn.Module, rank: int = 8) -> nn.Module:
    """The language model with trainable products of this rank beside its attention layers; all else is frozen."""
    require("peft", "adapters")
    import peft

    names = {name.rpartition(".")[2] for name, _ in language_model.named_modules()}
    layers = [name for name in ATTENTION_LAYERS if name in names]
    if not layers:
        known = ", ".join(ATTENTION_LAYERS)
        raise ModelError(f"{type(language_model).__name__} has no attention layers of the known names: {known}")
    untyped: Any = language_model
    config = peft.LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=0.0,
        target_modules=layers,
        fan_in_fan_out="c_attn" in layers,
        task_type="CAUSAL_LM",
    )
    module: nn.Module = peft.get_peft_model(untyped, config)
    return module
