"""transformers without progress bars and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and no warnings of transformers inside the block; its settings are restored on exit.

    Missing or mismatched weights are read from the loading info and raised instead (`pretrained.check_report`).
    """
    from huggingface_hub import utils
    from transformers.utils import logging as module

    logging: Any = module  # parts of it are untyped
    hub: Any = utils  # exports these functions without declaring them
    level, bars, hub_bars = logging.get_verbosity(), logging.is_progress_bar_enabled(), hub.are_progress_bars_disabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about HF_HUB_DISABLE_PROGRESS_BARS, which takes precedence
            if bars:
                logging.enable_progress_bar()
            (hub.disable_progress_bars if hub_bars else hub.enable_progress_bars)()
