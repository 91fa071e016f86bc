"""Settings of a process that explains shard after shard: its memory does not grow, and garbage is found quickly.

Two things grow otherwise. oneDNN keeps a compiled primitive for each new shape, up to 1,024 of them, and texts have
many shapes. And the C library takes large tensors from its heap once it has seen such sizes, where tensors of many
sizes leave holes: the peak rises with the number of shards that are there to find it in.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os

PRIMITIVES = 64  # that oneDNN keeps; fewer cost time
MAPPED_BYTES = 4 * 2**20  # from this size on a tensor has pages of its own, which it gives back
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of mallopt(3)


def bound_memory() -> None:
    """Settings of this process; call it in processes of our own, before the first forward pass."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PRIMITIVES))
    _call_c_library("mallopt", _MMAP_THRESHOLD, MAPPED_BYTES)


def freeze_objects() -> None:
    """Exempt the objects that exist now from garbage collection; call it in processes of our own, with a loaded model.

    Modules and the model stay until the end, and a search through them takes 0.2 seconds, every shard or two.
    """
    gc.collect()
    gc.freeze()


def release_free_memory() -> None:
    """Give free memory back to the system."""
    _call_c_library("malloc_trim", 0)


def _call_c_library(name: str, *arguments: int) -> None:
    """Call a function that only the GNU C library has; elsewhere nothing happens."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        getattr(ctypes.CDLL(None), name)(*arguments)
