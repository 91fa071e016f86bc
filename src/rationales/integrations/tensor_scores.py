"""From a batch of tensors to the scores of any method, in the shape of the tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import Tensor

from rationales.errors import OptionError
from rationales.integrations.tensor_batch import TensorBatch
from rationales.methods import build
from rationales.pipeline.scoring import first_nonfinite, run_method


def method_scores(
    batch: TensorBatch, target: Tensor, method: str, options: Mapping[str, Any], show_progress: bool = False
) -> tuple[Tensor, ...]:
    """The scores of a method by name, one tensor of the shape of each input tensor."""
    kind = "text" if batch.grid is None else "image"
    if method == "marc" and kind == "text" and "preset" not in options:
        options = {"preset": "words", **options}
    resolved = build(method, dict(options), kind)
    with _progress_bar(method) if show_progress else nullcontext() as report:
        attribution = run_method(batch, resolved, target, report)
    if (number := first_nonfinite(attribution.scores)) is not None:
        raise OptionError(f"{method} gives no finite scores for input {number}; check the outputs of the model")
    return batch.spread_scores(attribution.scores)


@contextmanager
def _progress_bar(title: str) -> Iterator[Callable[[float], None]]:
    from tqdm.auto import tqdm

    with tqdm(total=1.0, desc=title) as bar:
        yield lambda share: bar.update(share - bar.n)
