"""The tree of label words: its readouts give the labels' likelihoods, and labels exclude each other."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from rationales.models.prompt.labels import LabelTree

VOCABULARY = 4
sequences = st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=3), min_size=1, max_size=5)


def conditional(prefix):
    """Log probabilities of the token that follows these tokens: any function of them will do."""
    generator = torch.Generator().manual_seed(hash(tuple(prefix)) % 2**31)
    return torch.randn(VOCABULARY, generator=generator, dtype=torch.float64).log_softmax(-1)


def readout_logits(label_ids):
    tree = LabelTree.from_ids(label_ids)
    inner = sorted({tuple(ids[:n]) for ids in label_ids for n in range(1, len(ids))}, key=lambda p: (len(p), p))
    return tree, torch.stack([conditional(prefix) for prefix in [(), *inner]])[None] + 3.0  # any constant


@given(sequences)
def test_likelihoods_are_those_of_the_chain_rule(label_ids):
    label_ids = [list(ids) for ids in dict.fromkeys(map(tuple, label_ids))]
    tree, logits = readout_logits(label_ids)
    scores = tree.log_likelihoods(logits)[0]
    for ids, score in zip(label_ids, scores, strict=True):
        expected = sum(conditional(ids[:n])[token] for n, token in enumerate(ids))
        longer = [label for label in label_ids if len(label) > len(ids) and label[: len(ids)] == ids]
        continuations = {label[len(ids)] for label in longer}
        p_end = 1 - sum(conditional(ids)[token].exp() for token in continuations)
        assert torch.isclose(score, expected + torch.log(torch.as_tensor(p_end).clamp(min=1e-7)), atol=1e-6)


@given(sequences)
def test_labels_exclude_each_other(label_ids):
    label_ids = [list(ids) for ids in dict.fromkeys(map(tuple, label_ids))]
    tree, logits = readout_logits(label_ids)
    assert tree.log_likelihoods(logits).exp().sum() <= 1 + 1e-6


def test_nodes_see_their_ancestors_alone():
    tree = LabelTree.from_ids([[1, 2, 3], [1, 2, 0], [2, 2, 3]])
    assert tree.node_ids.tolist() == [1, 2, 2, 2]  # (1), (2), (1, 2), (2, 2)
    assert tree.depth.tolist() == [0, 0, 1, 1]
    expected = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]]
    assert tree.ancestors.int().tolist() == expected
    assert tree.longest == 2
