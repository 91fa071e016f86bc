"""The metrics that checkpoints are chosen by: those of protocol `aml` and of the paper's appendix."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from families import tiny
from methods.maskers import text_batch
from reference import aml as reference

import rationales
from rationales.errors import OptionError
from rationales.evaluation.faithfulness.measure import measure_faithfulness
from rationales.evaluation.metrics import METRICS
from rationales.masks.instant.aml.example_metrics import EXAMPLE_METRICS, best_candidates, measure_examples

TEXTS = [
    "Dull.",
    "I did not like the soup, but the bread wasn't bad at all!",
    "Every morning the baker carried twelve loaves up the hill; " * 6,
]


@pytest.fixture(scope="module")
def model():
    return rationales.load(*tiny("bert"))


@pytest.fixture(scope="module")
def batch(model):
    return text_batch(model, TEXTS)


def random_scores(batch, count):
    units = int(batch.rows.unit.max()) + 1
    return torch.rand(count, batch.inputs, units, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("metric", EXAMPLE_METRICS)
def test_equal_to_those_of_the_tables(model, batch, metric):
    scores = random_scores(batch, 2)
    with model.frozen():
        values = measure_examples(batch, scores, batch.predict().argmax(-1), metric)
    lengths = [len(text.units) for text in batch.text_sources().encoded]
    for variant in range(2):
        arrays = [scores[variant, number, :length].numpy() for number, length in enumerate(lengths)]
        curves = measure_faithfulness(model, TEXTS, arrays, None, "aml")
        assert np.allclose(values[variant].numpy(), METRICS[metric].function(curves), atol=1e-6)


@pytest.mark.parametrize("metric", EXAMPLE_METRICS)
def test_equal_to_the_appendix_on_one_text(model, batch, metric):
    row, scores = batch.take([1]), random_scores(batch, 1)[:, 1:2]
    units = int(row.rows.real.sum())
    with model.frozen(), torch.no_grad():
        target = row.predict().argmax(-1)

        def probability(kept, how):
            keep = torch.zeros(1, units)
            keep[0, kept] = 1
            logits = row.logits_deleted(keep) if how == "delete" else row.with_baseline("mask").logits(keep)
            return float(logits.double().softmax(-1)[0, target])

        value = measure_examples(row, scores[..., :units], target, metric).item()
        expected = reference.metric(probability, scores[0, 0, :units].tolist(), metric)
    assert value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("metric", EXAMPLE_METRICS)
def test_the_best_candidate_is_the_best_by_the_metrics_direction(model, batch, metric):
    scores = random_scores(batch, 5)
    with model.frozen():
        target = batch.predict().argmax(-1)
        values, best = measure_examples(batch, scores, target, metric), best_candidates(batch, scores, target, metric)
    expected = values.max(0).values if METRICS[metric].higher else values.min(0).values
    assert torch.equal(values.gather(0, best[None])[0], expected)


def test_another_metric_is_refused(model, batch):
    with pytest.raises(OptionError, match="one of sufficiency"):
        measure_examples(batch, random_scores(batch, 1), torch.tensor([0, 0, 0]), "deletion")
