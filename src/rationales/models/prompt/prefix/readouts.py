"""How a causal language model reads rows behind a shared prefix: three ways with the same result, the fastest first.

Rows are padded on the right. A causal model never reads what follows a token, so padding needs no mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn

from rationales.models.prompt.labels import LabelTree
from rationales.models.prompt.prefix.prefix_attention import shared_prefix
from rationales.models.prompt.prefix.prefix_cache import Prefix


class PrefixReading(StrEnum):
    """Where the prefix is, and whether all labels are read in one pass."""

    SHARED = "shared"  # its keys and values are stored once, and every layer attends to them
    COPIED = "copied"  # they are copied for every row, into a cache of transformers
    SEPARATE = "separate"  # whole prompts without masks, in a pass for each label that goes on after its first token


def text_config(module: nn.Module) -> Any:
    """The configuration of a language model, or None."""
    config: Any = getattr(module, "config", None)
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def readout_logits(
    module: nn.Module,
    words: Tensor,
    lengths: Tensor,
    nodes: Tensor,
    tree: LabelTree,
    prefix: Prefix,
    reading: PrefixReading,
) -> Tensor:
    """(R, 1 + N, vocabulary): what follows each row's last token, and each inner node of the label tree behind it.

    `words`: (R, T, hidden) word embeddings of rows of these `lengths` (R,); `nodes`: (N, hidden) those of the nodes.
    """
    if reading is PrefixReading.SEPARATE:
        return _in_separate_passes(module, words, lengths, nodes, tree, prefix)
    (rows, size), device = words.shape[:2], words.device
    position = (prefix.length + torch.arange(size, device=device)).expand(rows, -1)
    readouts = (lengths - 1)[:, None]
    if tree.nodes:
        words = torch.cat([words, nodes.expand(rows, -1, -1).to(words)], 1)
        position = torch.cat([position, prefix.length + lengths[:, None] + tree.depth], 1)
        readouts = torch.cat([readouts, size + torch.arange(tree.nodes, device=device).expand(rows, -1)], 1)
    arguments: dict[str, Any] = {"inputs_embeds": words, "position_ids": position}
    if reading is PrefixReading.SHARED and prefix.keys:
        with shared_prefix(text_config(module), prefix):
            masks = _masks(module, position, lengths, tree, prefix, words.dtype, of_prefix=False)
            return _logits_at(module, readouts, attention_mask=masks, use_cache=False, **arguments)
    masks = _masks(module, position, lengths, tree, prefix, words.dtype, of_prefix=True)
    cache = prefix.cache(rows)
    return _logits_at(module, readouts, attention_mask=masks, past_key_values=cache, use_cache=True, **arguments)


def _in_separate_passes(
    module: nn.Module, words: Tensor, lengths: Tensor, nodes: Tensor, tree: LabelTree, prefix: Prefix
) -> Tensor:
    rows, end = len(words), prefix.length + lengths[:, None]
    prompts = torch.cat([prefix.embeddings.to(words).expand(rows, -1, -1), words], 1)
    by_path: list[Tensor] = []
    for path in tree.paths:
        position = end + torch.arange(len(path), device=words.device)  # (R, D): behind each row's own last token
        padded = torch.cat([prompts, prompts.new_zeros(rows, len(path), prompts.shape[-1])], 1)
        label = nodes[path].to(words).expand(rows, -1, -1)
        padded = padded.scatter(1, position[..., None].expand_as(label), label)
        readouts = torch.cat([end - 1, position], 1)
        by_path.append(_logits_at(module, readouts, inputs_embeds=padded, use_cache=False))
    return joined_paths(tree, by_path)


def joined_paths(tree: LabelTree, by_path: Sequence[Tensor]) -> Tensor:
    """(R, 1 + N, vocabulary) from (R, 1 + D, vocabulary) for each path of the tree: the row's last token, its nodes."""
    columns: dict[int, Tensor] = {}
    for path, logits in zip(tree.paths, by_path, strict=True):
        columns |= dict(zip([0, *(path + 1).tolist()], logits.unbind(1), strict=True))
    return torch.stack([columns[readout] for readout in range(1 + tree.nodes)], 1)


def _logits_at(module: nn.Module, readouts: Tensor, **arguments: Any) -> Tensor:
    """(R, K, vocabulary): the logits at the readouts (R, K) of each row."""
    with _read_at(module, readouts):
        output = module(**arguments)
    logits = logits_of(output)
    if logits.shape[1] != readouts.shape[1]:  # the output layer could not be hooked
        logits = logits.gather(1, readouts.to(logits.device)[..., None].expand(-1, -1, logits.shape[-1]))
    return logits


def logits_of(output: Any) -> Tensor:
    """The logits in a language model's output."""
    logits: Tensor = output.logits if hasattr(output, "logits") else output[0]
    return logits


@contextmanager
def _read_at(module: nn.Module, readouts: Tensor) -> Iterator[None]:
    """Inside the block, the output layer is applied to the readouts (R, K) of each row only."""
    find = getattr(module, "get_output_embeddings", None)
    head = find() if find is not None else None
    if not isinstance(head, nn.Module):
        yield
        return

    def gather(_module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden = arguments[0]
        index = readouts.to(hidden.device)[..., None].expand(-1, -1, hidden.shape[-1])
        return (hidden.gather(1, index), *arguments[1:])

    handle = head.register_forward_pre_hook(gather)
    try:
        yield
    finally:
        handle.remove()


def _masks(
    module: nn.Module,
    position: Tensor,
    lengths: Tensor,
    tree: LabelTree,
    prefix: Prefix,
    dtype: torch.dtype,
    *,
    of_prefix: bool,
) -> Any:
    """What a token sees: a mask (1 or R, 1, T, P + T), or one for each type of layer.

    `of_prefix`: whether it covers the prefix also where all of the prefix is seen.
    """
    config, device = text_config(module), position.device
    window, types = getattr(config, "sliding_window", None), getattr(config, "layer_types", None)
    if types is not None and "sliding_attention" not in types:
        window = None
    visible = _visible(position, lengths, tree, prefix.length if of_prefix or window is not None else 0)
    full = _additive(visible, dtype)
    if window is None:
        return full
    keys = torch.cat([torch.arange(prefix.length, device=device).expand(len(position), -1), position], 1)
    near = (position[:, :, None] - keys[:, None, :] < window)[:, None]
    sliding = _additive(visible & near, dtype)
    return sliding if types is None else {"full_attention": full, "sliding_attention": sliding}


def _visible(position: Tensor, lengths: Tensor, tree: LabelTree, prefix: int) -> Tensor:
    """(1 or R, 1, T, P + T) bool: the prefix, the text up to the token itself, and the ancestors of a label's node."""
    size, device = position.shape[1] - tree.nodes, position.device
    causal = torch.ones(size, size, dtype=torch.bool, device=device).tril()[None]
    visible = causal
    if tree.nodes:
        rows = len(position)
        to_nodes = torch.zeros(rows, size, tree.nodes, dtype=torch.bool, device=device)
        real = torch.arange(size, device=device) < lengths[:, None]
        below = torch.cat([real[:, None].expand(-1, tree.nodes, -1), tree.ancestors.expand(rows, -1, -1)], 2)
        visible = torch.cat([torch.cat([causal.expand(rows, -1, -1), to_nodes], 2), below], 1)
    return torch.cat([visible.new_ones(len(visible), visible.shape[1], prefix), visible], 2)[:, None]


def _additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a token is seen, else the lowest number."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, torch.finfo(dtype).min)
