"""The rule of each rationale, compared with the definition read literally, one input and one rule at a time."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from families import tokenizer_of
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import rationales
from rationales.masks import sizes
from rationales.masks.sizes import LARGEST_SHARE, MIN_CAPPED_UNITS
from rationales.models.image.loading import from_module
from rationales.pipeline import selection
from rationales.pipeline.selection import SUFFICIENT, choose_rules
from rationales.rationale import Rule, by_label

SIDE = 12
SHARES = tuple(Rule(share=share) for share in (0.2, 0.3, 0.4, 0.5))
THRESHOLDS = tuple(Rule(threshold=threshold) for threshold in (0.9, 0.6, 0.3))


def network():
    module = nn.Sequential(nn.Conv2d(3, 5, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 25, 3))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
    return module.eval()


def to_tensor(image):
    return torch.from_numpy(np.asarray(image.resize((SIDE, SIDE)), dtype=np.float32) / 255).permute(2, 0, 1)


@pytest.fixture(scope="module")
def batch():
    model = from_module(network(), to_tensor, list("abc"), "small", ["black", "mean"])
    pictures = [np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8) for seed in range(8)]
    with model.frozen():
        yield model.batch(model.encode([model.read(picture, None) for picture in pictures]))


def literal_choice(batch, rules, scores, target, full):
    """(rule, probabilities of the selection, of its complement) for each input, all rules tried on it alone."""
    for number, values in enumerate(scores):
        single, label = batch.take([number]), int(target[number])
        candidates = []
        for rule in rules:
            keep = single.spread([torch.from_numpy(rule.select(values.numpy())).float()])
            alone, complement = single.predict(keep)[0], single.predict((1 - keep) * single.rows.real)[0]
            candidates.append((rule, alone, complement))
        enough = [item for item in candidates if item[1][label] >= SUFFICIENT * full[number, label]]
        necessary = [item for item in enough if item[2][label] < full[number, label]]
        yield (necessary or enough or [max(candidates, key=lambda item: float(item[1][label]))])[0]


@pytest.mark.parametrize("complements_later", [True, False])
@pytest.mark.parametrize("all_at_once", [True, False])
@pytest.mark.parametrize("rules", [SHARES, THRESHOLDS], ids=["shares", "thresholds"])
def test_every_way_of_asking_equals_the_definition(batch, rules, all_at_once, complements_later, monkeypatch):
    monkeypatch.setattr(selection, "_complements_later", lambda _batch: complements_later)
    if all_at_once:
        monkeypatch.setattr(selection, "_groups", lambda rules, _batch: [rules[:1], rules[1:]])
    full = batch.predict()
    generator = torch.Generator().manual_seed(0)
    scores = [(torch.rand(SIDE * SIDE, generator=generator) * 20).round() / 20 for _ in range(batch.inputs)]  # ties
    target = full.argmax(-1)
    target[0] = full[0].argmin()
    choice = choose_rules(batch, rules, scores, target, full)
    expected = list(literal_choice(batch, rules, scores, target, full))
    assert choice.rules == [rule for rule, _, _ in expected]
    assert len(set(map(str, choice.rules))) > 1  # the inputs differ in what they need
    for number, (rule, alone, complement) in enumerate(expected):
        assert np.array_equal(choice.selected[number], rule.select(scores[number].numpy()))
        assert torch.allclose(choice.rationale[number], alone, atol=1e-6)
        assert torch.allclose(choice.complement[number], complement, atol=1e-6)
    if complements_later:
        assert choice.row_outputs is None
        return
    predictions = torch.stack([choice.rationale, choice.complement])  # the means over an input's rows
    means = batch.pool(choice.row_outputs[..., None]).mean(-2).squeeze(-1)
    assert torch.allclose(means, predictions.gather(-1, target.expand(2, -1)[..., None]).squeeze(-1), atol=1e-6)


class EveryWord(nn.Module):
    """A classifier that is the surer the more words are kept: nine tenths of "yes" need more than 85 %."""

    strength = 4.0

    def __init__(self, tokenizer):
        super().__init__()
        self.embeddings = nn.Embedding(len(tokenizer), 1)
        nn.init.ones_(self.embeddings.weight)
        self.config = SimpleNamespace(id2label={0: "no", 1: "yes"}, num_labels=2, problem_type=None)

    def get_input_embeddings(self):
        return self.embeddings

    def forward(self, input_ids, attention_mask):
        kept = (self.embeddings(input_ids)[..., 0] * attention_mask).sum(1) / attention_mask.sum(1)
        logit = self.strength * (kept - 0.5)
        return torch.stack([-logit, logit], -1) / 2


@pytest.mark.parametrize("words", [20, 6])
def test_nearly_all_of_a_text_is_no_sufficient_rationale_unless_it_is_short(words):
    tokenizer = tokenizer_of("bert")
    module = EveryWord(tokenizer)
    special = torch.tensor(tokenizer.all_special_ids)
    model = rationales.load(module, tokenizer, baseline=torch.zeros(1))
    with torch.no_grad():
        module.embeddings.weight[special] = 0.5  # neither kept nor replaced
    batch = model.batch(model.encode([model.read(" ".join(["boat"] * words), None)]))
    scores, full, target = [torch.linspace(1, 0.05, words)], batch.predict(), torch.tensor([1])
    rules = tuple(Rule(threshold=threshold) for threshold in (0.5, 0.4, 0.3, 0.25, 0.01))
    choice = choose_rules(batch, rules, scores, target, full)
    shares, losses = [], []
    for rule in rules:
        keep = torch.from_numpy(rule.select(scores[0].numpy())).float()[None]
        kept, left = (float(batch.predict(side)[0, 1]) for side in (keep, 1 - keep))
        shares.append(float(keep.mean()))
        losses.append(-math.log(kept) - math.log(1 - left) + shares[-1] ** 2)
        assert (kept >= SUFFICIENT * float(full[0, 1])) == (shares[-1] > LARGEST_SHARE)
    if words < MIN_CAPPED_UNITS:
        assert choice.rules == [next(rule for rule, share in zip(rules, shares, strict=True) if share > LARGEST_SHARE)]
    else:
        assert choice.rules == [rules[int(np.argmin(losses))]]
        assert choice.selected[0].mean() <= LARGEST_SHARE


def test_sizes_tried_together_equal_sizes_tried_by_themselves(monkeypatch):
    """On a GPU several sizes of an image's rationale go through the model at once; scores are the same."""
    model = from_module(network(), to_tensor, list("abc"), "small", ["black", "mean"])
    pictures = [np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8) for seed in range(3)]
    alone = rationales.explain(model, pictures, options={"steps": 6})
    for at_once in (5, 100):
        elements = 2 * at_once * 2 * len(pictures) * SIDE * SIDE
        monkeypatch.setattr(sizes, "GRID_KEEPS_AT_ONCE", {"cpu": elements})
        together = rationales.explain(model, pictures, options={"steps": 6})
        for first, second in zip(alone, together, strict=True):
            assert np.allclose(first.scores, second.scores, atol=1e-6)


@given(
    scores=st.lists(st.integers(0, 6), min_size=1, max_size=30),
    share=st.floats(0, 1),
)
def test_a_threshold_selects_what_a_share_does_but_for_ties(scores, share):
    values = np.array(scores, dtype=np.float32)
    rule = Rule(share=share)
    by_share, by_threshold = rule.select(values), rule.as_threshold(values).select(values)
    assert not (by_threshold & ~by_share).any()
    omitted = values[by_share & ~by_threshold]
    assert len(set(omitted.tolist())) <= 1  # equal scores at the boundary
    if not by_share.all():
        assert all(omitted == values[~by_share].max(initial=-1))


@given(values=st.lists(st.floats(0, 1) | st.integers(0, 10**7).map(lambda tenth: tenth / 10**7), max_size=20))
def test_probabilities_are_rounded_as_python_rounds(values):
    labels = [str(number) for number in range(len(values))]
    assert by_label(labels, values) == {label: round(value, 6) for label, value in zip(labels, values, strict=True)}


def test_images_prepared_in_threads_are_the_same(monkeypatch):
    """As on a GPU: several threads preprocess; order and pixels stay."""
    model = from_module(network(), to_tensor, list("abc"), "small", ["black"])
    sources = [model.read(np.full((20 + seed, 30, 3), 10 * seed, dtype=np.uint8), None) for seed in range(12)]
    alone = model.prepare(sources)
    model.parallel_preprocess = True
    monkeypatch.setattr(type(model), "device_and_dtype", (torch.device("cuda"), torch.float32))
    together = model.prepare(sources)
    assert [image.source for image in together] == sources
    assert all(torch.equal(*pair) for pair in zip((i.pixels for i in alone), (i.pixels for i in together), strict=True))


@pytest.mark.parametrize(("rows", "sizes_of_groups"), [(1, [4]), (4, [4]), (5, [1, 3])])
def test_on_a_gpu_all_rules_go_through_a_small_pass_together(rows, sizes_of_groups):
    """Four rules of four rows are 32 rows with the complements, of five rows 40."""
    on_gpu = SimpleNamespace(device=SimpleNamespace(type="cuda"), size=(rows, SIDE**2))
    groups = list(selection._groups(SHARES, on_gpu))
    assert [len(group) for group in groups] == sizes_of_groups
    assert [rule for group in groups for rule in group] == list(SHARES)


def test_a_choice_from_one_pass_is_that_from_several(batch, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    scores = list(torch.rand((batch.inputs, SIDE**2), generator=generator))
    full = batch.predict()
    target = full.argmax(-1)
    expected = choose_rules(batch, SHARES, scores, target, full)
    monkeypatch.setattr(selection, "_groups", lambda rules, batch: [rules])
    actual = choose_rules(batch, SHARES, scores, target, full)
    assert actual.rules == expected.rules
    assert all(map(np.array_equal, actual.selected, expected.selected))
    torch.testing.assert_close(actual.rationale, expected.rationale)
    torch.testing.assert_close(actual.complement, expected.complement)
