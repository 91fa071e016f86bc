"""How much a visitor may ask for, and the errors for more."""

from __future__ import annotations

from dataclasses import dataclass

from rationales.errors import InputError, OptionError

MAX_METHODS = 4  # side by side
MAX_STEPS = 5_000  # of an optimisation
BASE64_GROWTH = 4 / 3  # of bytes written as base64
SPARE_BYTES = 65_536  # of a request, for everything but its text, upload or table


@dataclass(frozen=True)
class Limits:
    """The limits of one server; each can be set on the command line."""

    characters: int = 20_000  # of a text, and of its pair
    upload_bytes: int = 10_000_000  # of an image or a sound
    pixels: int = 50_000_000  # of an image, before it is reduced
    sound_seconds: float = 60.0
    table_bytes: int = 5_000_000
    table_rows: int = 200
    seconds: float = 300.0  # of one request, once it runs
    queue: int = 50  # requests that wait
    sessions: int = 100  # visitors whose last results are remembered
    session_seconds: float = 3_600.0  # after which the results of a visitor are forgotten

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise OptionError(f"the limit {name} must be greater than 0, not {value}")

    @property
    def request_bytes(self) -> int:
        """The largest request that can be within the limits; characters may be escaped with twelve bytes each."""
        largest = max(self.upload_bytes, self.table_bytes) * BASE64_GROWTH
        return int(max(largest, 24 * self.characters)) + SPARE_BYTES


def check_text(text: str, limits: Limits, noun: str = "the text") -> str:
    """`text`, unless it is too long or holds half a character."""
    if len(text) > limits.characters:
        raise InputError(f"{noun} has {len(text):,} characters; this server takes {limits.characters:,}; shorten it")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InputError(f"{noun} holds half a character (a lone surrogate); remove it")
    return text
