"""A lock for a model that lets quick requests in between the steps of a long one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ModelLock:
    """One thread at a time uses the model. The holder of a long job calls `pause` where others may go first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = threading.Lock()
        self._waiting = 0
        self._idle = threading.Event()
        self._idle.set()

    @contextmanager
    def long(self) -> Iterator[None]:
        """Hold the model for a job that calls `pause` between its steps."""
        with self._lock:
            yield

    @contextmanager
    def quick(self) -> Iterator[None]:
        """Hold the model for a few forward passes."""
        with self._count:
            self._waiting += 1
            self._idle.clear()
        try:
            with self._lock:
                yield
        finally:
            with self._count:
                self._waiting -= 1
                if not self._waiting:
                    self._idle.set()

    def pause(self, seconds: float = 1.0) -> None:
        """Let waiting quick requests run, for at most so long; the caller holds the model before and after."""
        if self._idle.is_set():
            return
        self._lock.release()
        try:
            self._idle.wait(seconds)
        finally:
            self._lock.acquire()
