"""Transformers without its progress bars and reports."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and no warnings of transformers inside the block; its settings are restored afterwards.

    What its reports would say of missing or mismatched weights is read from the loading info instead, and raised.
    """
    from huggingface_hub import utils
    from transformers.utils import logging as module

    logging: Any = module  # parts of it are untyped
    hub: Any = utils  # which exports these functions without saying so
    level, bars, hub_bars = logging.get_verbosity(), logging.is_progress_bar_enabled(), hub.are_progress_bars_disabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of HF_HUB_DISABLE_PROGRESS_BARS, which wins anyhow
            if bars:
                logging.enable_progress_bar()
            (hub.disable_progress_bars if hub_bars else hub.enable_progress_bars)()
