"""Copies of a user's modules in another precision: theirs stay as they are."""

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

APART = 0.05  # a copy whose probabilities differ by more from the module's own is not used
ALONG = 0.8  # nor is one whose slopes go another way: the cosine between both is at least this
HELD = 2**30  # bytes: a larger copy is made anew for every call

Print = tuple[list[int], list[float]]  # where every weight lies, and how large it is


@dataclass
class _Copy:
    print: Print
    modules: list[nn.Module]
    agrees: bool | None = None  # once that was looked at: whether it does with rows kept apart without masks


_copies: WeakKeyDictionary[nn.Module, dict[torch.dtype, _Copy]] = WeakKeyDictionary()


def copied(modules: Sequence[nn.Module], dtype: torch.dtype) -> list[nn.Module]:
    """Copies with their weights in `dtype`; the further modules are parts of the first, and their copies of its copy.

    What has numbers beside its weights keeps its precision: the statistics of a normalisation, the angles of rotary
    positions. A small copy is held as long as the module lives and is not trained further.
    """
    held = _copies.setdefault(modules[0], {})
    now = _print(modules[0])
    if dtype in held and held[dtype].print == now:
        return held[dtype].modules
    held.pop(dtype, None)
    made: list[nn.Module] = copy.deepcopy(list(modules))
    for part in made[0].modules():
        if any(buffer.is_floating_point() for buffer in part.buffers(recurse=False)):
            continue
        for weight in part.parameters(recurse=False):
            if weight.is_floating_point():
                weight.data = weight.data.to(dtype)
    for weight in made[0].parameters():
        weight.requires_grad_(False)
    made[0].eval()
    if sum(weight.nbytes for weight in made[0].parameters()) <= HELD:
        held[dtype] = _Copy(now, made)
    return made


def in_half(batch: Batch, dtype: torch.dtype = torch.bfloat16, *, slopes: bool = True) -> Batch | None:
    """The same rows through copies of the networks in `dtype`; None where these fail, or say something else.

    `slopes`: they are asked for as well.
    """
    found = {one.agrees for one in _held(batch, dtype)}
    if len(found) == 1 and (known := found.pop()) is not None:
        half = batch.copied(dtype, known)
        if {one.agrees for one in _held(batch, dtype)} == {known}:  # not trained further since
            return half
    for apart in (True, False):
        if (agreeing := _agreeing(batch, dtype, apart, slopes)) is not None:
            for one in _held(batch, dtype):
                one.agrees = apart
            return agreeing
    return None


def _agreeing(batch: Batch, dtype: torch.dtype, apart: bool, slopes: bool) -> Batch | None:
    try:
        half = batch.copied(dtype, apart)
        plain, found = (one.take(sorted({0, batch.inputs - 1})) for one in (batch, half))
        near = (plain.predict() - found.predict()).abs() <= APART
        return half if bool(near.all()) and (not slopes or _along(plain, found)) else None
    except Exception:  # noqa: BLE001  # whatever: the plain rows are there, and a kernel's compiler raises what it likes
        return None


def _along(plain: Batch, found: Batch) -> bool:
    """Whether the slopes of both go the same way; there need not be any."""
    with torch.no_grad():
        chosen = plain.logits(plain.ones()).argmax(-1, keepdim=True)
    wanted, own = (_slopes(one, chosen) for one in (plain, found))
    if wanted is None or own is None:
        return wanted is None
    sizes = wanted.norm() * own.norm()
    return bool(own.isfinite().all()) and bool(wanted @ own >= ALONG * sizes)


def _slopes(batch: Batch, chosen: Tensor) -> Tensor | None:
    """By what is kept of each unit: of the chosen classes' logits over the mean of all."""
    with torch.enable_grad():
        keep = batch.ones().requires_grad_()
        logits = batch.logits(keep)
        if not logits.requires_grad:
            return None
        above = logits.gather(-1, chosen)[..., 0] - logits.mean(-1)
        return torch.autograd.grad(above.sum(), keep)[0].flatten().float()


def _held(batch: Batch, dtype: torch.dtype) -> list[_Copy]:
    """The copies that are held of the batch's networks; none where one of them is missing."""
    found = [_copies[module][dtype] for module in batch.modules if dtype in _copies.get(module, {})]
    return found if len(found) == len(batch.modules) else []


def _print(module: nn.Module) -> Print:
    """Changes with any training step, also with one that writes past autograd."""
    held = [*module.parameters(), *module.buffers()]
    numbers = [value.detach() for value in held if value.is_floating_point()]
    sizes = torch._foreach_norm(numbers) if numbers else []  # noqa: SLF001  # one call for hundreds of weights
    return [value.data_ptr() for value in numbers], torch.stack(list(sizes)).tolist() if numbers else []
