"""Copies of a user's modules in another precision; the user's modules are not changed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from rationales.models.batch import Batch

MAX_PROBABILITY_DIFFERENCE = 0.05  # between a copy and its module; otherwise the copy is not used
MIN_GRADIENT_COSINE = 0.8  # between the gradients of a copy and its module; otherwise the copy is not used
MAX_CACHED_BYTES = 2**30  # larger copies are made anew for every call

Fingerprint = tuple[list[int], list[float]]  # address and norm of every weight


@dataclass
class _Copy:
    fingerprint: Fingerprint
    modules: list[nn.Module]
    agrees: bool | None = None  # whether it agrees without masks (True) or only with masks (False); None: not tested


_copies: WeakKeyDictionary[nn.Module, dict[torch.dtype, _Copy]] = WeakKeyDictionary()


def forward_dtype(device: torch.device) -> torch.dtype | None:
    """The half precision in which `device` computes forward passes faster than in single precision; None without one.

    float16 on an NVIDIA GPU, bfloat16 on a CPU with AVX-512 instructions for it. CPUs with AMX are left out: virtual
    machines that announce AMX without allowing it end the process in the first product.
    """
    if device.type == "cuda":
        return torch.float16
    has_instructions = torch.cpu._is_avx512_bf16_supported() and not torch.cpu._is_amx_tile_supported()  # noqa: SLF001
    return torch.bfloat16 if device.type == "cpu" and has_instructions else None


def copy_in_dtype(modules: Sequence[nn.Module], dtype: torch.dtype) -> list[nn.Module]:
    """Copies with their weights in `dtype`; the further modules are sub-modules of the first, and so are their copies.

    Sub-modules with floating-point buffers keep their precision: the statistics of a normalisation, rotary positions.
    Small copies are cached as long as the module lives and its weights do not change. Copies of modules that are in
    `dtype` already share their weights.
    """
    cached = _copies.setdefault(modules[0], {})
    current_fingerprint = weights_fingerprint(modules[0])
    if dtype in cached and cached[dtype].fingerprint == current_fingerprint:
        return cached[dtype].modules
    cached.pop(dtype, None)
    shared = all(weight.dtype == dtype for weight in modules[0].parameters())
    same_weights = {id(weight): weight for weight in modules[0].parameters()} if shared else {}
    copies: list[nn.Module] = copy.deepcopy(list(modules), same_weights)
    if not shared:
        _convert(copies[0], dtype)
    copies[0].eval()
    if shared or sum(weight.nbytes for weight in copies[0].parameters()) <= MAX_CACHED_BYTES:
        cached[dtype] = _Copy(current_fingerprint, copies)
    return copies


def _convert(module: nn.Module, dtype: torch.dtype) -> None:
    """Convert the weights of a copy to `dtype` and freeze them."""
    for submodule in module.modules():
        if any(buffer.is_floating_point() for buffer in submodule.buffers(recurse=False)):
            continue
        for weight in submodule.parameters(recurse=False):
            if weight.is_floating_point():
                weight.data = weight.data.to(dtype)
    for weight in module.parameters():
        weight.requires_grad_(False)


def in_half_precision(batch: Batch, dtype: torch.dtype = torch.bfloat16, *, gradients: bool = True) -> Batch | None:
    """Copy of this batch whose modules run in `dtype`; None if the copies fail or disagree with the modules.

    `gradients`: whether gradients must agree, too.
    """
    agreements = {copy_.agrees for copy_ in _cached_copies(batch, dtype)}
    if len(agreements) == 1 and (agreed := agreements.pop()) is not None:
        half = batch.in_dtype(dtype, agreed)
        if {copy_.agrees for copy_ in _cached_copies(batch, dtype)} == {agreed}:  # the weights have not changed since
            return half
    for without_masks in (True, False):
        if (agreeing := _agreeing(batch, dtype, without_masks, gradients)) is not None:
            for copy_ in _cached_copies(batch, dtype):
                copy_.agrees = without_masks
            return agreeing
    return None


def _agreeing(batch: Batch, dtype: torch.dtype, without_masks: bool, gradients: bool) -> Batch | None:
    try:
        half = batch.in_dtype(dtype, without_masks)
        plain, copied = (batch_.take(sorted({0, batch.inputs - 1})) for batch_ in (batch, half))
        close = (plain.predict() - copied.predict()).abs() <= MAX_PROBABILITY_DIFFERENCE
        return half if bool(close.all()) and (not gradients or _gradients_agree(plain, copied)) else None
    except Exception:  # noqa: BLE001  # the plain batch is the fallback, and a kernel's compiler may raise anything
        return None


def _gradients_agree(plain: Batch, copied: Batch) -> bool:
    """Whether the gradients of both have a similar direction, or both have none."""
    with torch.no_grad():
        chosen = plain.logits(plain.ones()).argmax(-1, keepdim=True)
    expected, actual = (_keep_gradients(batch_, chosen) for batch_ in (plain, copied))
    if expected is None or actual is None:
        return expected is None
    sizes = expected.norm() * actual.norm()
    return bool(actual.isfinite().all()) and bool(expected @ actual >= MIN_GRADIENT_COSINE * sizes)


def _keep_gradients(batch: Batch, chosen: Tensor) -> Tensor | None:
    """Gradient with respect to keep of the chosen classes' logits minus the mean logit; None if there is none."""
    with torch.enable_grad():
        keep = batch.ones().requires_grad_()
        logits = batch.logits(keep)
        if not logits.requires_grad:
            return None
        advantage = logits.gather(-1, chosen)[..., 0] - logits.mean(-1)
        return torch.autograd.grad(advantage.sum(), keep)[0].flatten().float()


def _cached_copies(batch: Batch, dtype: torch.dtype) -> list[_Copy]:
    """The cached copies of the batch's networks; empty unless all of them are cached."""
    copies = [_copies[module][dtype] for module in batch.modules if dtype in _copies.get(module, {})]
    return copies if len(copies) == len(batch.modules) else []


def weights_fingerprint(module: nn.Module) -> Fingerprint:
    """Address and norm of every weight; changes with any training step, even one that autograd does not see."""
    tensors = [*module.parameters(), *module.buffers()]
    numbers = [value.detach() for value in tensors if value.is_floating_point()]
    sizes = torch._foreach_norm(numbers) if numbers else []  # noqa: SLF001  # one kernel for all weights
    return [value.data_ptr() for value in numbers], torch.stack(list(sizes)).tolist() if numbers else []
