"""What goes to the terminal, and what must not."""

from __future__ import annotations

import io
import os
import sys
import warnings


def prepare_streams() -> None:
    """Output is UTF-8 wherever it goes, and no character of a text can stop it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def silence_libraries() -> None:
    """What the libraries below say to programmers does not help the user of a command."""
    for name in ("HF_HUB_DISABLE_PROGRESS_BARS", "TRANSFORMERS_NO_ADVISORY_WARNINGS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
