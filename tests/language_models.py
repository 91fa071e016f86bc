"""Tiny random causal language models of several families, with the tokenizers of `families`."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from families import tokenizer_of

_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_DECODER = _SIZES | {"num_key_value_heads": 2, "max_position_embeddings": 160}
LANGUAGE_MODELS: dict[str, tuple[str, str, str, dict[str, Any]]] = {  # configuration, class, tokenizer, settings
    "llama": ("LlamaConfig", "LlamaForCausalLM", "llama", _DECODER),
    "mistral": ("MistralConfig", "MistralForCausalLM", "mistral", _DECODER | {"sliding_window": 12}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", "qwen2", _DECODER),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", "mistral", _DECODER | {"head_dim": 8}),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", "qwen2", _DECODER | {"head_dim": 8, "sliding_window": 12}),
    "gpt2": (
        "GPT2Config",
        "GPT2LMHeadModel",
        "gpt2",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 64, "n_positions": 160},
    ),
    "phi": (
        "PhiConfig",
        "PhiForCausalLM",
        "llama",
        _DECODER | {"num_key_value_heads": 4, "partial_rotary_factor": 0.5},
    ),
}


def tiny_language_model(family: str, *, seed: int = 0, **more: Any) -> tuple[Any, Any]:
    """A fresh random language model and its tokenizer; weights large enough that words matter."""
    config_name, class_name, tokenizer_family, settings = LANGUAGE_MODELS[family]
    tokenizer = tokenizer_of(tokenizer_family)
    tokens = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": None}
    config = getattr(transformers, config_name)(**(settings | {"vocab_size": len(tokenizer)} | tokens | more))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = getattr(transformers, class_name)(config)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.2)
    return model.eval(), tokenizer
