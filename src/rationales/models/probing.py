"""What methods ask a model again and again: slopes at many points, answers under many keeps.

Both are cut into blocks of rows that fit memory, both add up in a fixed order, and both hand a method one row's own
values and key alone, so that a row's result cannot depend on its company.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rationales.errors import ModelError
from rationales.models.batch import Batch, Piece
from rationales.models.heads import Head
from rationales.models.randomness import fold

OF = ("logit", "log-odds", "log-probability", "probability")
NO_GRADIENTS = (
    "the model gives no gradients with respect to its input (it runs under no_grad, or rounds on the way); "
    "use a method that needs none: occlusion, shapley-sampling, kernel-shap or lime"
)


def explained(batch: Batch, logits: Tensor, target: Tensor, of: str) -> Tensor:
    """(..., R, classes), (R,) -> (..., R): the number that is explained.

    `logit` of the target; `log-odds`, its logit against all others together; `log-probability`; `probability`.
    """
    index = target.expand(logits.shape[:-1]).unsqueeze(-1)
    alone = batch.head is not Head.SOFTMAX  # each class for itself: its logit is its log-odds
    if of == "probability":
        logits = batch.probabilities(logits)
    elif of == "log-probability":
        logits = torch.nn.functional.logsigmoid(logits) if alone else logits.log_softmax(-1)
    elif of == "log-odds" and not alone:
        others = logits.scatter(-1, index, -torch.inf).logsumexp(-1, keepdim=True)
        logits = logits - others
    return logits.gather(-1, index).squeeze(-1)


@dataclass(frozen=True, eq=False)
class Reading:
    """What a block of R rows reads, for a method to choose points from."""

    full: Tensor  # (R, *read)
    empty: Tensor  # (R, *read) the same with every unit replaced by the baseline
    inside: Tensor  # (R, *read) or 1 along an axis: what belongs to a unit
    key: Tensor  # (R,)
    draw: Callable[[Tensor, Sequence[int], torch.dtype], Tensor]  # see Batch.drawn

    def keys(self, variants: Tensor) -> Tensor:
        """(k,) -> (k * R,): a key for every row of every variant."""
        return fold(self.key.repeat(len(variants)), variants.repeat_interleave(len(self.key)))

    def noisy(self, variants: Tensor, scale: float) -> Tensor:
        """(k, R, *read): what is read with Gaussian noise on its units, relative to its strength."""
        drawn = self.draw(fold(self.keys(variants), 0), self.full.shape[1:], self.full.dtype)
        return self.full + scale * self.strength * self.inside * drawn.view(len(variants), *self.full.shape)

    def along(self, values: Tensor) -> Tensor:
        """(k,) or (k, R) -> the same with as many axes as (k, R, *read)."""
        return values.view(*values.shape, *[1] * (self.full.dim() + 1 - values.dim()))

    @property
    def strength(self) -> Tensor:
        """(R, 1, ...): the root mean square of what is read, over units."""
        axes = tuple(range(1, self.full.dim()))
        inside = self.inside.expand_as(self.full)
        return ((self.full.square() * inside).sum(axes, keepdim=True) / inside.sum(axes, keepdim=True)).sqrt()


Points = Callable[[Reading, Tensor], tuple[Tensor, Tensor | None]]
# (reading, variants (k,)) -> points (k, R, *read), and what their slopes are multiplied by before they are added up
Slope = Callable[[Batch, Piece, Tensor, Tensor, str], Tensor]  # as `slope_at`


def slopes(
    batch: Batch,
    target: Tensor,
    points: Points,
    *,
    variants: int = 1,
    of: str = "logit",
    reduce: str = "sum",
    baseline: bool = True,
    slope: Slope | None = None,
    weight: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Tensor:
    """(S, n): sum over variants of factor x d explained / d read, at each variant's point, reduced to units.

    `baseline`: whether points depend on it; where they do not, rows that differ in it alone are asked once. `slope`: a
    rule in place of the gradient; `weight`: how many rows it runs for one.
    """
    ask = slope_at if slope is None else slope
    rows = batch.size[0] if baseline else batch.distinct

    def work() -> Tensor:
        single = torch.promote_types(batch.dtype, torch.float32)
        scores = torch.zeros(rows, batch.size[1], device=batch.device, dtype=single)
        done = 0
        for block in batch.blocks(rows, weight):
            row = block.row
            full = batch.embedded(row)
            empty = batch.emptied(row) if baseline else full
            reading = Reading(full, empty, batch.inside(row), batch.rows.key[row], batch.drawn)
            total = torch.zeros_like(full)
            for some in torch.split(torch.arange(variants, device=batch.device), block.variants):
                with torch.no_grad():
                    point, factor = points(reading, some)
                found = ask(batch, block.piece(len(some)), point.flatten(0, 1), target, of).view_as(point)
                total += (found if factor is None else found * factor).sum(0)
                done += len(some) * len(row)
                if progress is not None:
                    progress(done / (variants * rows))
            scores[row] = batch.to_units(total, reduce, row)
        return scores

    return expanded(batch, batch.fit(work))


def slope_at(batch: Batch, piece: Piece, point: Tensor, target: Tensor, of: str, first: int | None = None) -> Tensor:
    """(R, *read): d explained / d read of the piece's rows, or of its first, where they read `point`."""
    with torch.enable_grad():
        leaf = point.detach().requires_grad_()
        logits = batch.forward_from(piece, leaf.clone())  # a model may overwrite what it reads, a leaf it may not
        value = explained(batch, logits, target[batch.rows.input[piece.row]], of)
    if not value.requires_grad:
        raise ModelError(NO_GRADIENTS)
    return torch.autograd.grad(value[:first].sum(), leaf)[0]


def check_gradients(batch: Batch) -> None:
    """Raise a ModelError unless what the model says of a row hangs together, differentiably, with what it reads."""
    cost = batch.cost()
    row = min(range(len(cost)), key=lambda index: cost[index])
    index = torch.tensor([row], device=batch.device)
    piece = Piece(index, index, int(batch.rows.view[row]), cost[row], full=True)
    with torch.enable_grad():
        keep = batch.ones()[index].requires_grad_()
        try:
            found = batch.forward(piece, keep, None)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # it ran without gradients before: what stops it now is that they are asked for
            raise ModelError(f"{NO_GRADIENTS} ({error})") from error
    if not found.requires_grad:
        raise ModelError(NO_GRADIENTS)


def expanded(batch: Batch, values: Tensor) -> Tensor:
    """(distinct, n) or (S, n) -> (S, n)."""
    return values if len(values) == batch.size[0] else values[batch.rows.mask]


Keeps = Callable[[Tensor, Tensor], Tensor]  # (rows (R,), variants (k,)) -> keep (k, R, n)


def answers(
    batch: Batch,
    target: Tensor,
    keeps: Keeps,
    variants: int | Tensor,
    *,
    of: str = "probability",
    progress: Callable[[float], None] | None = None,
) -> Tensor:
    """(K, S): what is explained of every row under many keeps.

    `variants`: how many; one number, or (S,) for each row its own, and beyond it stands whatever came of it. Keeps are
    made where they are needed and never stored together.
    """
    count = torch.as_tensor(variants, device=batch.device).expand(batch.size[0])
    most, whole = int(count.max()), batch.size[0]

    def work() -> Tensor:
        found = torch.zeros(most, whole, device=batch.device, dtype=torch.promote_types(batch.dtype, torch.float32))
        done = 0
        for block in batch.blocks():
            own = int(count[block.row].max())
            for some in torch.split(torch.arange(own, device=batch.device), block.variants) if own else ():
                keep = keeps(block.row, some).to(batch.dtype)
                piece = block.piece(len(some))
                logits = batch.forward(piece, keep.flatten(0, 1), None)
                value = explained(batch, logits, target[batch.rows.input[piece.row]], of)
                found[some[:, None], block.row] = value.view(len(some), -1).to(found.dtype)
                if progress is not None:
                    progress((done + len(block.row) * (int(some[-1]) + 1) / own) / whole)
            done += len(block.row)
        return found

    with torch.no_grad():
        return batch.fit(work)


def ends(batch: Batch, target: Tensor, of: str) -> tuple[Tensor, Tensor]:
    """(S,) twice: what is explained of every row with nothing and with everything in its place."""

    def keeps(row: Tensor, variant: Tensor) -> Tensor:
        return variant[:, None, None].expand(-1, len(row), batch.size[1])

    empty, full = answers(batch, target, keeps, 2, of=of)
    return empty, full
