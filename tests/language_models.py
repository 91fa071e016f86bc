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
_LOCAL_GPT_NEO = {"attention_types": [[["global", "local"], 1]], "window_size": 12}
_FEW_EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
_LOW_RANK_KEYS = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
# with masks, caches or layers of their own: what they make of them has to be compared with plain passes
UNUSUAL_MODELS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "gpt-neo": (
        "GPTNeoConfig",
        "GPTNeoForCausalLM",
        "gpt2",
        {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 160} | _LOCAL_GPT_NEO,
    ),
    "mpt": ("MptConfig", "MptForCausalLM", "llama", {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 160}),
    "bloom": ("BloomConfig", "BloomForCausalLM", "llama", {"hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "falcon": (
        "FalconConfig",
        "FalconForCausalLM",
        "llama",
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "alibi": True},
    ),
    "rwkv": (
        "RwkvConfig",
        "RwkvForCausalLM",
        "llama",
        {"hidden_size": 32, "num_hidden_layers": 2, "context_length": 160},
    ),
    "mamba": ("MambaConfig", "MambaForCausalLM", "llama", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
    "recurrent-gemma": (
        "RecurrentGemmaConfig",
        "RecurrentGemmaForCausalLM",
        "llama",
        _SIZES | {"num_hidden_layers": 3, "attention_window_size": 12},
    ),
    "lfm2": ("Lfm2Config", "Lfm2ForCausalLM", "llama", _DECODER | {"layer_types": ["conv", "full_attention"]}),
    "llama4": (
        "Llama4TextConfig",
        "Llama4ForCausalLM",
        "llama",
        _DECODER
        | {"head_dim": 8, "intermediate_size_mlp": 64, "num_local_experts": 2, "attention_chunk_size": 12}
        | {"layer_types": ["chunked_attention", "full_attention"]},
    ),
    "gpt-oss": (
        "GptOssConfig",
        "GptOssForCausalLM",
        "llama",
        _DECODER | _FEW_EXPERTS | {"head_dim": 8, "sliding_window": 12},
    ),
    "deepseek-v3": (
        "DeepseekV3Config",
        "DeepseekV3ForCausalLM",
        "llama",
        _DECODER | _LOW_RANK_KEYS | {"num_key_value_heads": 4, "first_k_dense_replace": 2},
    ),
}


def tiny_language_model(family: str, *, seed: int = 0, **overrides: Any) -> tuple[Any, Any]:
    """A new random language model and its tokenizer; `overrides` replace settings of the family's configuration.

    The weights are large enough that words matter.
    """
    config_name, class_name, tokenizer_family, settings = (LANGUAGE_MODELS | UNUSUAL_MODELS)[family]
    tokenizer = tokenizer_of(tokenizer_family)
    tokens = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": None}
    config = getattr(transformers, config_name)(**(settings | {"vocab_size": len(tokenizer)} | tokens | overrides))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = getattr(transformers, class_name)(config)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.2)
    return model.eval(), tokenizer


def keyword_language_model(*keywords: str, strength: float = 10.0) -> tuple[Any, Any]:
    """A Llama of one layer, set by hand, that goes on with "found" where a keyword is in its prompt, else "absent".

    One number of an embedding says that a token is a keyword, another that it is none. Every token attends to keywords,
    wherever they are, and evenly to all tokens where there are none; what it gets decides between the two words.
    """
    tokenizer = tokenizer_of("bert")
    ids = {word: tokenizer(word, add_special_tokens=False)["input_ids"] for word in (*keywords, "found", "absent")}
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4,
        max_position_embeddings=160,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng():
        model = transformers.LlamaForCausalLM(config).eval()
    keyword, plain, read, constant = 0, 1, 2, 3  # what the numbers of a state mean
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.zero_()
        words = model.get_input_embeddings().weight
        words[:, plain] = 1.0
        words[:, constant] = 1.0
        for word in keywords:
            words[ids[word], plain], words[ids[word], keyword] = 0.0, 1.0
        attention = model.model.layers[0].self_attn
        slow = 3  # of the eight numbers of a query, one that positions hardly turn
        attention.q_proj.weight[slow, constant] = attention.k_proj.weight[slow, keyword] = 1.7
        attention.v_proj.weight[0, keyword] = 1.0
        attention.o_proj.weight[read, 0] = 2.0
        model.lm_head.weight[ids["found"][0], read] = 0.3 * strength
        model.lm_head.weight[ids["absent"][0], constant] = 0.1 * strength
        model.lm_head.weight[ids["absent"][0], plain] = 0.1 * strength
    return model, tokenizer
