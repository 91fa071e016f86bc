"""Orders of spans on validation reviews: what the default's rationale is ranked by, and what else it could be.

python -m bench.span_orders --data DIR --out OUT --collect                 # on a GPU, about a minute for 200 reviews
python -m bench.span_orders --data DIR --out OUT                           # compares orders; the network is not run

--collect optimises the field of single words and the Gaussian field of `preset=clauses` on the validation reviews of
ERASER and stores both, with the probabilities of rationales of all sizes, in OUT/fields-MODEL.pt. Without it the stored
fields are read and every order of `ORDERS` is compared with people's marks, as they are and widened to sentences, by
the protocol of Table 1: mAP and IoU F1. --encoder: MiniLM as `python -m zoo.paper_models.pack` packs it.
"""

from __future__ import annotations

import argparse
import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import rationales
from rationales.data import Example, read_data
from rationales.evaluation.agreement.word_marks import gold_words, word_scores
from rationales.evaluation.metric_values import MetricInputs, compute_metrics
from rationales.evaluation.metrics import METRICS
from rationales.evaluation.protocols import find_protocol
from rationales.evaluation.sampling import evenly
from rationales.evaluation.tables import markdown
from rationales.evaluation.tables.statistics import compare
from rationales.experiments.marc_table1.widths import in_sentences
from rationales.masks import postprocess
from rationales.masks.objective import edge, mask_rows, row_groups, scaled
from rationales.masks.optimize import fast_precision, optimize
from rationales.masks.settings import CLAUSES, DEFAULT, MaskSettings
from rationales.masks.sizes import CUT_SOFTNESS, SizeProbabilities, best_size, size_candidates, size_probabilities
from rationales.models.batch import Batch, execution
from rationales.models.batch.rows import content_key
from rationales.pipeline.scoring import open_batch

MODELS = ("minilm-reviews", "minilm-movies")
DATA, SPLIT, REVIEWS = "eraser-movies", "val", 200
AT_ONCE = 64  # reviews
COLUMNS = ("average-precision", "iou-f1")
BY_WORD = replace(DEFAULT, halo=0.0, shrink=0.0, closing=0, anchor=0.0)


@dataclass(frozen=True, eq=False)
class Fields:
    """What was optimised for the reviews of one batch: (M, n) each, and the model's answers to their orders."""

    words: Tensor  # the field of single words
    gradient: Tensor  # the warm-up gradient, standardised
    clauses: Tensor  # the Gaussian field, with its anchor
    by_order: dict[str, SizeProbabilities]  # words, spans and clauses: the orders of the present default and preset


def optimise(batch: Batch, target: Tensor) -> Fields:
    """Both fields and the probabilities of the rationales that they lead to."""
    fast_batch, _ = fast_precision(batch, DEFAULT)
    words = optimize(batch, target, DEFAULT)
    clauses = optimize(batch, target, CLAUSES)
    with torch.no_grad():
        z, shaped = words.bounded_field, clauses.bounded_field
        orders = {
            "words": word_order(z, fast_batch),
            "spans": postprocess.span_order(z, words.anchor, fast_batch, DEFAULT),
            "clauses": postprocess.unit_order(shaped, fast_batch, CLAUSES),
        }
        probabilities = size_probabilities(list(orders.values()), fast_batch, target, size_candidates(fast_batch))
    return Fields(z, words.anchor, shaped, dict(zip(orders, probabilities, strict=True)))


def word_order(z: Tensor, batch: Batch) -> Tensor:
    """(M, n): the order of single words, as `postprocess.words_and_spans` has it."""
    return scaled(postprocess.positive_part(scaled(z, batch)), batch)


def collect(name: str, examples: Sequence[Example], out: Path, device: str) -> None:
    """Optimise all reviews with one classifier and write the fields."""
    model: Any = rationales.load(name, device=device)
    stored = []
    for begin in range(0, len(examples), AT_ONCE):
        chunk = examples[begin : begin + AT_ONCE]
        encoded = model.encode([model.read(example.raw_input(), example.name) for example in chunk])
        with open_batch(model, encoded, 0) as batch:
            target = torch.tensor([model.target(example.label) for example in chunk], device=batch.device)
            fields = optimise(batch, target)
        values = {key: getattr(fields, key).float().cpu() for key in ("words", "gradient", "clauses")}
        answers = {
            key: {side: getattr(answer, side).float().cpu() for side in ("kept", "left", "full", "empty")}
            for key, answer in fields.by_order.items()
        }
        stored.append({"names": [example.name for example in chunk], "fields": values, "by_order": answers})
        torch.save(stored, out / f"fields-{name}.pt")
        print(f"{name}: {begin + len(chunk)} of {len(examples)} reviews", flush=True)


@dataclass(frozen=True, eq=False)
class StoredBatch:
    """The stored fields of some reviews with the batch that they belong to; its network is not run."""

    batch: Batch
    target: Tensor
    fields: Fields
    examples: Sequence[Example]
    encoded: Sequence[Any]


def read_fields(name: str, examples: Sequence[Example], out: Path) -> list[StoredBatch]:
    """What `collect` wrote."""
    by_name = {example.name: example for example in examples}
    model: Any = rationales.load(name, device="cpu")
    batches = []
    for stored in torch.load(out / f"fields-{name}.pt", weights_only=True):
        chunk = [by_name[example_name] for example_name in stored["names"]]
        encoded = model.encode([model.read(example.raw_input(), example.name) for example in chunk])
        answers = {key: SizeProbabilities(**sides) for key, sides in stored["by_order"].items()}
        fields = Fields(**stored["fields"], by_order=answers)
        target = torch.tensor([model.target(example.label) for example in chunk])
        batches.append(StoredBatch(model.batch(encoded, 0), target, fields, chunk, encoded))
    return batches


Scoring = Callable[[StoredBatch], Tensor]  # -> (M, n) span scores


def default_scores(stored: StoredBatch) -> Tensor:
    """Words or spans, whichever has the lower loss: the default."""
    return _lower_loss(stored, "words", "spans", linear_scores)


def linear_scores(stored: StoredBatch, kind: str) -> Tensor:
    """Scores of an order, linear on both sides of the rationale's edge."""
    return candidate(stored, kind).scores


def steep_scores(stored: StoredBatch, kind: str) -> Tensor:
    """Scores of an order, a steep sigmoid around the rationale's edge."""
    (order, settings), batch = order_of(stored, kind), stored.batch
    size = best_size(order, batch, stored.target, settings, stored.fields.by_order[kind]).size
    by_view = row_groups(batch)[: batch.masks]
    edges, deviation = edge(order, batch, size.repeat_interleave(batch.views), CUT_SOFTNESS)
    distance = (order - edges[by_view][:, None]) / deviation[by_view][:, None]
    return torch.sigmoid(postprocess.compressed(distance / postprocess.CLAUSE_EDGE))


@functools.cache
def order_of(stored: StoredBatch, kind: str) -> tuple[Tensor, MaskSettings]:
    """(M, n): an order that the model was asked about, and the settings of its rationale."""
    batch, fields = stored.batch, stored.fields
    if kind == "words":
        return word_order(fields.words, batch), BY_WORD
    if kind == "spans":
        return postprocess.span_order(fields.words, fields.gradient, batch, DEFAULT), DEFAULT
    return postprocess.unit_order(fields.clauses, batch, CLAUSES), CLAUSES


@functools.cache
def candidate(stored: StoredBatch, kind: str) -> postprocess.RationaleCandidate:
    """The rationale of an order that the model was asked about."""
    order, settings = order_of(stored, kind)
    return postprocess.RationaleCandidate.of(order, stored.batch, stored.target, settings, stored.fields.by_order[kind])


def _lower_loss(stored: StoredBatch, first: str, second: str, scale: Callable[[StoredBatch, str], Tensor]) -> Tensor:
    """Scores of the one of two orders whose rationale has the lower loss, for each review."""
    use_first = candidate(stored, first).loss <= candidate(stored, second).loss
    by_row = use_first[mask_rows(stored.batch.rows.input, stored.batch)][:, None]
    return torch.where(by_row, scale(stored, first), scale(stored, second))


ORDERS: dict[str, Scoring] = {
    "words or spans, steep": lambda stored: _lower_loss(stored, "words", "spans", steep_scores),
    "words or spans, linear: the default": default_scores,
    "spans always, steep": lambda stored: steep_scores(stored, "spans"),
    "spans always, linear": lambda stored: linear_scores(stored, "spans"),
    "words or clauses of the Gaussian field, steep": lambda stored: _lower_loss(
        stored, "words", "clauses", steep_scores
    ),
    "preset=clauses": lambda stored: steep_scores(stored, "clauses"),
    "words always, steep": lambda stored: steep_scores(stored, "words"),
}


def agreement(scoring: Scoring, batches: Sequence[StoredBatch]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Column -> (reviews,) with the marks as they are, and with marks widened to sentences."""
    scores, marked = [], []
    for stored in batches:
        with torch.no_grad():
            rows = (scoring(stored) * mask_rows(stored.batch.rows.real, stored.batch))[stored.batch.rows.mask]
            units = stored.batch.gather(rows)
        for example, encoding, values in zip(stored.examples, stored.encoded, units, strict=True):
            scores.append(word_scores(example.text, None, encoding.units, values.float().numpy()))
            marked.append(example)
    computed = []
    for widen in (False, True):
        gold_examples = [in_sentences(example) if widen else example for example in marked]
        inputs = MetricInputs(
            unit_scores=scores,
            compared_scores=scores,
            gold=[gold_words(example) for example in gold_examples],
            tie_keys=[content_key(0, example.text, None) for example in marked],
        )
        computed.append(compute_metrics([METRICS[column] for column in COLUMNS], inputs, find_protocol("marc")))
    return {column: (computed[0][column].values, computed[1][column].values) for column in COLUMNS}


def compare_orders(name: str, examples: Sequence[Example], out: Path) -> str:
    """A Markdown table of all orders: means with the marks as they are / widened, and differences to the first order.

    A difference is that of the means over both kinds of marks; its p is of the paired sign-flip test over reviews.
    """
    batches = read_fields(name, examples, out)
    lines: list[list[str]] = []
    reference: dict[str, np.ndarray] = {}
    for title, scoring in ORDERS.items():
        means, differences = [], []
        for column, (plain, wide) in agreement(scoring, batches).items():
            values = (plain + wide) / 2
            difference = compare(values, reference.setdefault(column, values))
            means.append(f"{np.nanmean(plain):.3f} / {np.nanmean(wide):.3f}")
            differences.append(f"{difference.difference:+.4f} (p {difference.p:.4f})" if lines else "")
        lines.append([title, *means, *differences])
    head = [f"{name}, n = {len(examples)}", "mAP", "IoU F1", "difference of mAP", "of IoU F1"]
    return markdown.table(head, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with eraser-movies; without it nothing is run")
    parser.add_argument("--out", type=Path, help="folder of the stored fields; without it nothing is run")
    parser.add_argument("--collect", action="store_true", help="optimise the fields and store them")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--limit", type=int, default=REVIEWS, help="reviews")
    parser.add_argument("--encoder", type=Path, help="packed encoder")
    parser.add_argument("--gpu-share", type=float, help="of the free GPU memory, where several runs share a GPU")
    args = parser.parse_args()
    if args.data is None or args.out is None:
        print("span_orders: give --data, where eraser-movies is, and --out, a folder; skipped")
        return
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    execution.GPU_SHARE = args.gpu_share or execution.GPU_SHARE
    args.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high" if device == "cuda" else "highest")
    examples = evenly(read_data(DATA, SPLIT, args.data), args.limit)
    with tempfile.TemporaryDirectory() as folder:
        if args.encoder is not None:
            from bench.im_tables import provide_encoder

            provide_encoder(args.encoder, Path(folder))
        for name in args.models:
            if args.collect:
                collect(name, examples, args.out, device)
            else:
                print(compare_orders(name, examples, args.out), end="\n\n")


if __name__ == "__main__":
    main()
