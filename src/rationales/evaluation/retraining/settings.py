"""Settings of ROAR; the defaults are those of Pham et al. (2022, sections 3.2 and 5.1) where they state them."""

from __future__ import annotations

from dataclasses import dataclass

from rationales.errors import OptionError
from rationales.options import check_option, option

OWN_ENCODER, SCRATCH = "own-encoder", "scratch"


@dataclass(frozen=True)
class RetrainingSettings:
    """How much is removed, from what weights classifiers start, and how they are trained."""

    levels: tuple[float, ...] = option((0.1, 0.2, 0.3), "shares of the words that are removed, at least one word")
    seeds: int = option(5, "classifiers that are trained on each set of data")
    start: str = option(
        OWN_ENCODER,
        "weights that training starts from: own-encoder (the model's own encoder and a new head), scratch (all new), "
        "or a pretrained encoder, by id or folder, as in the paper",
    )
    epochs: int = option(3, "passes over the training data")
    learning_rate: float = option(2e-5, "of Adam at the first step; it falls linearly to 0")
    batch_size: int = option(32, "texts in a step")
    max_length: int = option(128, "tokens of a text; what follows is cut off")
    clip: float = option(1.0, "largest norm of the gradient in a step")
    test_share: float = option(0.2, "share of each class that is held out where no training data are given")

    together: bool = option(False, "train many classifiers in one batched pass: faster for small encoders on a GPU")
    by_length: bool = option(False, "batches of texts of similar length: less padding, so faster")
    half: bool = option(
        False,
        "products in bfloat16 on a GPU, or a CPU with instructions for it; weights and sums stay in single precision",
    )

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "levels", tuple(float(level) for level in self.levels))
        except (TypeError, ValueError):
            raise OptionError(f"levels are shares of the words such as [0.1, 0.2], not {self.levels!r}") from None
        if not self.levels or any(not 0 < level < 1 for level in self.levels):
            raise OptionError(f"levels are shares of the words between 0 and 1, not {list(self.levels)}")
        if list(self.levels) != sorted(set(self.levels)):
            raise OptionError(f"levels must rise, not {list(self.levels)}")
        for name in ("seeds", "epochs", "batch_size", "max_length"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionError(f"{name} is a whole number from 1, not {value!r}")
        for name in ("learning_rate", "clip"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
                raise OptionError(f"{name} is a number above 0, not {value!r}")
        check_option("test_share", self.test_share, "float", ())
        check_option("together", self.together, "bool", ())
        check_option("by_length", self.by_length, "bool", ())
        check_option("half", self.half, "bool", ())
        check_option("start", self.start, "str", ())
        if not 0 < self.test_share < 1:
            raise OptionError(f"test_share lies between 0 and 1, not {self.test_share!r}")
        if not self.start:
            raise OptionError(f"start is {OWN_ENCODER}, {SCRATCH}, an id or a folder; it is empty")
