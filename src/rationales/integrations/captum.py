"""MaRC as an attribution of captum: `MaRC(forward).attribute(inputs, baselines, target)`.

    from rationales.integrations.captum import MaRC
    attributions = MaRC(model).attribute(images, baselines=0, target=3)

captum is not needed by the package: pip install captum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rationales.errors import OptionError
from rationales.integrations.tensor_batch import tensor_batch
from rationales.integrations.tensor_scores import method_scores
from rationales.models.batch.execution import frozen

try:
    from captum.attr import Attribution as CaptumAttribution
    from captum.log import log_usage
except ImportError:
    raise OptionError("this needs captum, which is not installed: pip install captum") from None

TensorOrTuple = Tensor | tuple[Tensor, ...]


class MaRC(CaptumAttribution):  # type: ignore[misc]  # captum comes without types
    """A mask over the inputs that keeps the target and whose complement loses it (Brinner and Zarrieß).

    `forward_func`: a module or function from tensors (inputs, ...) to outputs (inputs, classes), or (inputs,) for one
    class; it must be differentiable. `output`: whether these are `logits` or `probabilities`. `layout`: the units that
    share one score: `pixels` of (inputs, channels, height, width), positions of a `sequence` (inputs, length,
    features), or single `features`; `auto` goes by the number of axes. `options`: those of `marc` (`rationales methods
    marc`), such as steps=100; the preset is `default` for images and `words` for everything else.
    """

    def __init__(
        self, forward_func: Callable[..., Any], *, output: str = "logits", layout: str = "auto", **options: Any
    ) -> None:
        super().__init__(forward_func)
        self.output, self.layout, self.options = output, layout, options

    @log_usage()  # type: ignore[untyped-decorator]  # captum's NoiseTunnel calls what this wraps
    def attribute(
        self,
        inputs: TensorOrTuple,
        baselines: Any = None,
        target: Any = None,
        additional_forward_args: Any = None,
        feature_mask: TensorOrTuple | None = None,
        internal_batch_size: int | None = None,
        seed: int = 0,
        show_progress: bool = False,
    ) -> TensorOrTuple:
        """Scores in [0, 1] of the shape of the inputs; all elements of a unit (the channels of a pixel) have one score.

        `baselines`: a number, a tensor that can be expanded to the inputs, or a tuple of these, by default 0. `target`:
        a class, a tuple of indices into an output of several axes, or a list or tensor with one for each input; None is
        the predicted class. `feature_mask`: the number of the unit of every element, as in captum's FeatureAblation.
        Inputs in a tuple are explained together, and a tuple is returned. A module is frozen and in evaluation mode
        meanwhile, and restored. An input gets the same scores alone and in any batch.
        """
        tensors = inputs if isinstance(inputs, tuple) else (inputs,)
        modules = [self.forward_func] if isinstance(self.forward_func, torch.nn.Module) else []
        with torch.inference_mode(False), frozen(*modules):
            batch, classes = tensor_batch(
                self.forward_func,
                tensors,
                _as_tuple(baselines if baselines is not None else 0.0, len(tensors)),
                target,
                arguments=() if additional_forward_args is None else _as_tuple(additional_forward_args),
                feature_mask=None if feature_mask is None else _as_tuple(feature_mask),
                layout=self.layout,
                output=self.output,
                rows_at_once=internal_batch_size,
                seed=seed,
            )
            attributions = method_scores(batch, classes, "marc", self.options, show_progress)
        typed = tuple(scores.to(tensor.dtype) for scores, tensor in zip(attributions, tensors, strict=True))
        return typed if isinstance(inputs, tuple) else typed[0]

    @classmethod
    def get_name(cls) -> str:
        """The name in captum's tables."""
        return "MaRC"

    @property
    def multiplies_by_inputs(self) -> bool:
        """False: scores are shares of what is kept, not of the output."""
        return False

    def has_convergence_delta(self) -> bool:
        """False: the scores of a mask do not add up to the output."""
        return False


def _as_tuple(value: Any, count: int = 1) -> tuple[Any, ...]:
    values = value if isinstance(value, tuple) else (value,) * (count if isinstance(value, (int, float)) else 1)
    if count > 1 and len(values) != count:
        raise OptionError(f"{len(values)} baselines for {count} input tensors")
    return values
