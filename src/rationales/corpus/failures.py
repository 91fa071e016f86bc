"""What an exception says of a record: that it cannot be explained, or that nothing can be explained any more."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rationales.corpus.manifest import ADVICE
from rationales.corpus.records import OUT_OF_MEMORY, BadRecord, Record
from rationales.errors import InputError, RationalesError

# What the model or a library raises for one input. Mistakes in the request (OptionError) stop the run.
RECORD_ERRORS = (RationalesError, RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, AssertionError)
RECORD_ERRORS += (AttributeError, MemoryError)  # type: ignore[assignment]  # a tuple of another length
MAX_MESSAGE = 500  # characters
_MEMORY_MESSAGES = ("out of memory", "can't allocate memory", "ALLOC_FAILED")
_DEVICE_MESSAGES = ("CUDA error", "HIP error", "XPU error")
_ACCELERATOR_ERROR: Any = getattr(torch, "AcceleratorError", ())  # torch 2.8 and newer
CONTROL_TEXT, CONTROL_PAIR = "A few plain words.", "Some more of them."
CONTROL_SIDE = 64  # pixels


class DeviceError(RationalesError):
    """The device of a process has failed; the process cannot compute on it any more."""


class FailingModelError(RationalesError):
    """The model fails on whatever it is given, so that its failures say nothing of the records."""


def check_device(error: BaseException) -> None:
    """Raise a DeviceError where an exception is an error of the device that all further calls will raise too."""
    message = str(error)
    if is_memory_error(error):
        return
    if isinstance(error, _ACCELERATOR_ERROR) or any(words in message for words in _DEVICE_MESSAGES):
        raise DeviceError(
            f"the device has failed, and this process cannot use it any more: {message[:MAX_MESSAGE]}; {ADVICE}. "
            "With --workers 2 or more such a process is replaced, and a record that is the cause is isolated"
        ) from error


def is_memory_error(error: BaseException) -> bool:
    """Whether memory of the host or of a device ran out; on a CPU torch raises a plain RuntimeError."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _MEMORY_MESSAGES)


def failed_record(record: Record, title: str, error: BaseException) -> BadRecord:
    """The record with the reason of an exception that it caused in the method `title`."""
    message = " ".join(str(error).split())[:MAX_MESSAGE] or type(error).__name__
    if "NaN or infinite" in message:
        reason = "nan"
    elif is_memory_error(error):
        reason = OUT_OF_MEMORY
    elif isinstance(error, InputError) and record.image is not None:
        reason = "broken-image"
    elif isinstance(error, InputError):
        reason = "cannot-be-explained"
    else:
        reason, message = "model-failure", f"{type(error).__name__}: {message}"
    return BadRecord(record.position, record.location, reason, message, record.id, title)


def control_input(kind: str, *, pair: bool = False) -> Any:
    """A plain input that every model of this kind can explain."""
    if kind == "image":
        ramp = np.linspace(0, 255, CONTROL_SIDE, dtype=np.uint8)
        return np.broadcast_to(ramp[:, None, None], (CONTROL_SIDE, CONTROL_SIDE, 3)).copy()
    return (CONTROL_TEXT, CONTROL_PAIR) if pair else CONTROL_TEXT
