"""What logits mean."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rationales.errors import ModelError
from rationales.models.classes import Head, class_logits, output_logits, probabilities

LOGITS = st.lists(st.floats(-30, 30), min_size=2, max_size=6)


def read(head, values):
    return probabilities(head, class_logits(head, torch.tensor(values, dtype=torch.float64))).tolist()


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


@given(LOGITS)
def test_softmax_shares_one_among_the_classes(values):
    total = sum(math.exp(value) for value in values)
    assert all(abs(a - math.exp(b) / total) < 1e-12 for a, b in zip(read(Head.SOFTMAX, values), values, strict=True))


@given(st.floats(-30, 30))
def test_one_sigmoid_logit_speaks_for_the_second_class_against_the_first(value):
    against, for_ = read(Head.SIGMOID, [value])
    assert abs(for_ - sigmoid(value)) < 1e-12
    assert abs(against + for_ - 1) < 1e-12


@given(LOGITS)
def test_labels_of_a_multi_label_head_are_independent(values):
    assert all(abs(a - sigmoid(b)) < 1e-12 for a, b in zip(read(Head.MULTI_LABEL, values), values, strict=True))


def test_a_sigmoid_logit_and_softmax_over_half_of_it_agree():
    """(-z, z) under two sigmoids is what softmax makes of (-z/2, z/2)."""
    z = torch.linspace(-9, 9, 19, dtype=torch.float64)[:, None]
    halves = probabilities(Head.SOFTMAX, torch.cat([-z / 2, z / 2], -1))
    assert torch.allclose(probabilities(Head.SIGMOID, class_logits(Head.SIGMOID, z)), halves, atol=1e-12)


class TestOutputLogits:
    LOGITS = torch.arange(6.0).reshape(2, 3)

    @pytest.mark.parametrize("wrap", [lambda x: x, lambda x: (x, None), lambda x: SimpleNamespace(logits=x)])
    def test_are_unwrapped(self, wrap):
        assert output_logits(wrap(self.LOGITS), "text") is self.LOGITS

    def test_a_single_logit_may_come_without_an_axis_where_the_number_of_rows_is_known(self):
        assert output_logits(torch.ones(2), "sound", 2).shape == (2, 1)
        with pytest.raises(ModelError, match="one row of logits for each sound"):
            output_logits(torch.ones(2), "sound")

    def test_anything_else_is_no_classifier(self):
        with pytest.raises(ModelError, match="one row of logits for each text; is it a classifier"):
            output_logits(self.LOGITS[None], "text")
