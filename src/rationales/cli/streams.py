"""What goes to the terminal, and what must not."""

from __future__ import annotations

import errno
import gc
import inspect
import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FULL_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # a disk or a device that takes no more


def discard_output() -> None:
    """What standard output still holds goes nowhere, so that the interpreter does not fail to write it at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def prepare_streams() -> None:
    """Output is UTF-8 wherever it goes, and no character of a text can stop it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def prepare_libraries() -> None:
    """Settings for the libraries below, which read them once, while they are loaded."""
    silence_libraries()
    wait_quietly()


def wait_quietly() -> None:
    """Threads that have nothing to do sleep, so that they leave the cores to other programs.

    By default they run in a circle for some milliseconds, which on a busy machine makes small models many times slower.
    Whoever has set a variable of OpenMP knows better, and nothing is changed.
    """
    if not any(name.startswith(("OMP_", "GOMP_", "KMP_")) for name in os.environ):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def import_torch() -> None:
    """Import torch without garbage collection, and leave its objects out of later collections.

    They are hundreds of thousands, none of them garbage; searching them takes a fifth of the time of the import.
    """
    if "torch" in sys.modules:
        return
    with _without_collection():
        import torch  # noqa: F401  # for what is imported later


def import_gradio() -> None:
    """Import Gradio without garbage collection, and without its search for the source of its components.

    While it is imported, it rewrites the type stubs in its own folder, which takes two thirds of the time. It leaves a
    component out where `inspect.getfile` finds no file.
    """
    if "gradio" in sys.modules:
        return
    find_file = inspect.getfile

    def find_no_component(object: Any) -> str:  # noqa: A002  # the name that inspect has
        if isinstance(object, type) and object.__module__.startswith("gradio."):
            raise OSError("no stub is needed")
        return find_file(object)

    inspect.getfile = find_no_component
    try:
        with _without_collection():
            import gradio  # noqa: F401  # for what is imported later
    finally:
        inspect.getfile = find_file


@contextmanager
def _without_collection() -> Iterator[None]:
    """No garbage collection inside the block, and none of the objects made there later."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
    gc.freeze()


def silence_libraries() -> None:
    """What the libraries below say to programmers does not help the user of a command."""
    for name in ("HF_HUB_DISABLE_PROGRESS_BARS", "TRANSFORMERS_NO_ADVISORY_WARNINGS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
