"""What surrounds a forward pass: temporary changes of the modules, the number of threads, the memory, and a count.

Idle OpenMP threads spin. That saves microseconds on an idle machine, but on a busy one spinning threads take the cores
from working ones, and small models become many times slower. Small work therefore runs in one thread, and larger work
gets a further one for each `WORK_PER_THREAD`. The number depends only on the work, never on how busy the machine is:
the same input gives the same bits.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import OptionError


@contextmanager
def frozen(*modules: nn.Module) -> Iterator[None]:
    """Evaluation mode and no weight gradients inside the block; on exit each flag is restored."""
    training = [(submodule, submodule.training) for module in modules for submodule in module.modules()]
    gradient_flags = [(weight, weight.requires_grad) for module in modules for weight in module.parameters()]
    try:
        for submodule, _ in training:
            submodule.training = False
        for weight, _ in gradient_flags:
            weight.requires_grad_(False)
        yield
    finally:
        for submodule, flag in training:
            submodule.training = flag
        for weight, flag in gradient_flags:
            weight.requires_grad_(flag)


@contextmanager
def output_replaced(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Inside the block, the output of `module` is replaced by `change(output)`."""

    def hook(_module: nn.Module, _arguments: Any, output: Tensor) -> Tensor:
        return change(output)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def attribute_set(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Inside the block, `owner.name` is `value`."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def full_precision_products() -> Iterator[None]:
    """Inside the block, matrix products of single precision are not rounded to TF32 on an NVIDIA GPU."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Inside the block, garbage collection is off; it dominates the time to make many small objects that stay."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


VARIABLE = "RATIONALES_THREADS"  # environment variable: number of threads for any work
WORK_PER_THREAD = 200_000_000  # multiplications in a forward pass: about 100 words in the embedded model


class _Outermost:
    """The number of open blocks of `limited_threads`, and of torch's threads before the first."""

    lock = threading.Lock()
    blocks = 0
    available = 1


@contextmanager
def limited_threads(work: int) -> Iterator[None]:
    """Inside the block torch uses as many threads as `work` multiplications are worth; restored on exit.

    Blocks may be nested: an inner block can have more threads than the outer, but never more than torch had before the
    first block (set by OMP_NUM_THREADS or torch.set_num_threads), unless RATIONALES_THREADS is set.
    """
    with _Outermost.lock:
        before = torch.get_num_threads()
        if not _Outermost.blocks:
            _Outermost.available = before
        count = requested_threads() or worthwhile_threads(work, _Outermost.available)
        _Outermost.blocks += 1
        _set(count)
    try:
        yield
    finally:
        with _Outermost.lock:
            _Outermost.blocks -= 1
            _set(before if _Outermost.blocks else _Outermost.available)


def worthwhile_threads(work: int, available: int) -> int:
    """One thread, and a further one for each `WORK_PER_THREAD` multiplications; at most `available`."""
    return max(1, min(available, 1 + work // WORK_PER_THREAD))


def weight_count(module: nn.Module) -> int:
    """Number of parameters of a module."""
    return sum(weight.numel() for weight in module.parameters())


def requested_threads() -> int | None:
    """The number in RATIONALES_THREADS, if it is set."""
    value = os.environ.get(VARIABLE, "").strip()
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and int(value) > 0):
        raise OptionError(f"{VARIABLE} is a number of threads, 1 or more; not {value!r}")
    return int(value)


def _set(count: int) -> None:
    if count != torch.get_num_threads():
        torch.set_num_threads(count)


CPU_BYTES = 2 * 2**30  # of activations; a larger budget is not faster on a CPU
GPU_SHARE = 0.6  # of free memory; the remainder is for temporary tensors between layers


def token_budget(config: Any, length: int, device: torch.device, itemsize: int = 4) -> int:
    """Number of tokens that fit, from the size of a transformer's stored activations per token."""
    layers = _read(config, 12, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    hidden = _read(config, 768, "hidden_size", "n_embd", "d_model", "dim")
    heads = _read(config, 12, "num_attention_heads", "n_head", "n_heads")
    inner = _read(config, 4 * hidden, "intermediate_size", "n_inner", "hidden_dim", "d_ff")
    per_token = itemsize * layers * (10 * hidden + 3 * inner + 2 * heads * length)
    return max(int(available_bytes(device) // per_token), 1)


def stored_bytes(modules: Sequence[nn.Module], compute: Callable[[], object]) -> int:
    """Bytes that `compute` stores for a backward pass, each tensor once and without the modules' weights.

    Passes of this measurement are not counted (`counted_passes`).
    """
    weight_pointers = {weight.untyped_storage().data_ptr() for module in modules for weight in module.parameters()}
    weight_pointers |= {buffer.untyped_storage().data_ptr() for module in modules for buffer in module.buffers()}
    stored: dict[int, int] = {}

    def note(value: Tensor) -> Tensor:
        memory = value.untyped_storage()
        if memory.data_ptr() not in weight_pointers:
            stored[memory.data_ptr()] = memory.nbytes()
        return value

    results = []
    hooks = torch.autograd.graph.saved_tensors_hooks(note, lambda value: value)
    with torch.enable_grad(), hooks, counted_passes():
        results.append(compute())  # kept alive, or freed memory would be reused and counted once
    return sum(stored.values())


def available_bytes(device: torch.device) -> int:
    """Bytes that activations may take on this device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # reserved by torch but unused
        return int((free + idle) * GPU_SHARE)
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # not available on every system
        return CPU_BYTES
    return min(CPU_BYTES, physical // 4)


def _read(config: Any, default: int, *names: str) -> int:
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return default


@dataclass(eq=False)
class PassCount:
    """Rows that went through a model forward, and those of them that recorded a graph for a backward pass.

    The same of a trained network that a method reads (an attribution network) is counted apart.
    """

    forward: int = 0
    backward: int = 0
    network_forward: int = 0
    network_backward: int = 0

    @property
    def total(self) -> int:
        """Forward and backward passes of the model together."""
        return self.forward + self.backward


_count: ContextVar[PassCount | None] = ContextVar("pass count", default=None)


@contextmanager
def counted_passes() -> Iterator[PassCount]:
    """Count the passes of all rows inside the block."""
    count = PassCount()
    token = _count.set(count)
    try:
        yield count
    finally:
        _count.reset(token)


def record_passes(rows: int, output: Tensor) -> None:
    """Count `rows` that gave this output, if anything counts."""
    count = _count.get()
    if count is not None:
        count.forward += rows
        count.backward += rows if output.requires_grad else 0


def record_network_passes(rows: int, output: Tensor) -> None:
    """Count `rows` that gave this output of a method's own network, if anything counts."""
    count = _count.get()
    if count is not None:
        count.network_forward += rows
        count.network_backward += rows if output.requires_grad else 0


def record_replays(passes: PassCount, times: int) -> None:
    """Count the passes of a recorded step that is replayed so many times, if anything counts."""
    count = _count.get()
    if count is not None:
        for name, rows in asdict(passes).items():
            setattr(count, name, getattr(count, name) + times * rows)
