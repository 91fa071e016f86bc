"""Work in a thread that reports its progress, can be cancelled, and has a time limit.

A method reports its progress every few steps. So that it also stops in between, every module of a network that is
called in the thread of a job asks first whether the job goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from torch.nn.modules.module import register_module_forward_pre_hook

from rationales.errors import RationalesError

Report = Callable[[float], None]


class JobStoppedError(RationalesError):
    """The work was cancelled or took too long."""


class Job:
    """One piece of work. `work(job)` calls `job.report(share)` between its steps, where it can be stopped."""

    def __init__(self, work: Callable[[Job], Any], seconds: float) -> None:
        self.share = 0.0
        self.message = ""
        self.results: list[Any] = []  # what the work has finished so far
        self.problems: list[str] = []  # why parts of the work have no result
        self.began = time.monotonic()
        self._seconds = seconds
        self._error: BaseException | None = None
        self._cancelled = threading.Event()
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)

    def start(self) -> Job:
        """Begin the work; its time limit starts now."""
        self.began = time.monotonic()
        self._thread.start()
        return self

    def report(self, share: float) -> None:
        """Set the completed share; raises a JobStoppedError after `cancel` and after the time limit."""
        self.share = min(max(share, 0.0), 1.0)
        self.check()

    def check(self) -> None:
        """Raise a JobStoppedError after `cancel` and after the time limit."""
        if self._cancelled.is_set():
            raise JobStoppedError("cancelled")
        if time.monotonic() - self.began > self._seconds:
            raise JobStoppedError(
                f"stopped after {self._seconds:g} s, the time limit of this server; "
                "take a faster method, fewer steps or a shorter input"
            )

    def cancel(self) -> None:
        """Stop the work at its next report; nothing happens to work that has ended."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled.is_set()

    @property
    def finished(self) -> bool:
        """Whether the work has ended, in whatever way."""
        return self._finished.is_set()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the completed share; None while too little is done."""
        return self.seconds * (1 - self.share) / self.share if self.share > 0.02 else None

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the work has ended, at most so long; whether it has."""
        return self._finished.wait(seconds)

    def outcome(self) -> list[Any]:
        """The results of work that has ended; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self.results

    def _run(self, work: Callable[[Job], Any]) -> None:
        thread = threading.get_ident()

        def check_forward(_module: Any, _arguments: Any) -> None:
            if threading.get_ident() == thread:
                self.check()

        hook = register_module_forward_pre_hook(check_forward)
        try:
            work(self)
        except BaseException as error:  # noqa: BLE001  # raised again by `outcome`, in the thread that asks for it
            self._error = error
        finally:
            hook.remove()
            self._finished.set()


class VisitorJobs:
    """The running job of each visitor; a new one stops the one before."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def start(self, visitor: str, job: Job) -> Job:
        """Start `job` as the job of this visitor."""
        with self._lock:
            previous, self._jobs[visitor] = self._jobs.get(visitor), job
        if previous is not None:
            previous.cancel()
        return job.start()

    def cancel(self, visitor: str) -> bool:
        """Stop the job of this visitor; whether there was one."""
        with self._lock:
            job = self._jobs.get(visitor)
        if job is None:
            return False
        job.cancel()
        return True

    def is_running(self, visitor: str) -> bool:
        """Whether this visitor has a job that was not cancelled."""
        with self._lock:
            job = self._jobs.get(visitor)
        return job is not None and not job.cancelled

    def end(self, visitor: str, job: Job) -> None:
        """Stop `job` and forget it."""
        job.cancel()
        with self._lock:
            if self._jobs.get(visitor) is job:
                del self._jobs[visitor]

    def stop_all(self) -> None:
        """Stop every job, when the server ends."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
