"""Slopes and answers: what is asked of a model again and again does not depend on how it is asked."""

from __future__ import annotations

import pytest
import torch
from families import FAMILIES, tiny
from hypothesis import given
from hypothesis import strategies as st

import rationales
from rationales.errors import ModelError
from rationales.methods import build
from rationales.models.batch import Batch
from rationales.models.batch.queries import (
    baseline_and_full_outputs,
    gradients,
    outputs_of_rows,
    outputs_under_keeps,
)
from rationales.models.classes import OUTPUTS, Head, explained_output
from rationales.models.text.tokens import TextInput

TEXTS = [
    "Dull.",
    "I did not like the soup, but the bread wasn't bad at all!",
    "Every morning the baker carried twelve loaves up the hill; " * 6,  # several segments
]
TARGET = torch.tensor([2, 0, 1])


def prepared(views=1, **options):
    networks = [tiny("bert", seed=seed, **options) for seed in range(views)]
    model = rationales.load([module.double() for module, _ in networks], networks[0][1], segment=40, overlap=8)
    return model, model.batch(model.encode([TextInput(text) for text in TEXTS]))


@pytest.fixture(scope="module")
def bert():
    return prepared()


def line(reading, step):
    position = reading.along((step + 0.5) / 4)
    return reading.empty + position * (reading.full - reading.empty), (reading.full - reading.empty)[None] / 4


class TestExplainedOutput:
    @given(st.lists(st.floats(-8, 8), min_size=2, max_size=5), st.sampled_from(list(Head)), st.data())
    def test_each_number_is_a_function_of_the_probability(self, values, head, data):
        logits = torch.tensor([values], dtype=torch.float64)
        target = torch.tensor([data.draw(st.integers(0, len(values) - 1))])
        outputs = {of: float(explained_output(head, logits, target, of)) for of in OUTPUTS}
        p = outputs["probability"]
        assert outputs["logit"] == values[int(target)]
        assert outputs["log-probability"] == pytest.approx(torch.tensor(p, dtype=torch.float64).log().item(), abs=1e-9)
        assert 1 / (1 + torch.exp(-torch.tensor(outputs["log-odds"]))) == pytest.approx(p, abs=1e-6)

    def test_log_odds_do_not_care_for_a_shift_of_all_logits(self):
        logits = torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64)
        first, second = (
            explained_output(Head.SOFTMAX, logits + shift, torch.tensor([1]), "log-odds") for shift in (0, 7)
        )
        assert torch.allclose(first, second, atol=1e-12)

    def test_the_log_odds_of_a_single_class_are_its_logit(self):
        """There is nothing that it could be set against."""
        logits = torch.tensor([[1.5]])
        assert explained_output(Head.SOFTMAX, logits, torch.tensor([0]), "log-odds").tolist() == [1.5]


class TestGradients:
    @pytest.mark.parametrize(("budget", "views"), [(1, 1), (97, 1), (300, 2)])
    def test_the_budget_changes_nothing(self, budget, views):
        model, batch = prepared(views)
        with model.frozen():
            expected = gradients(batch, TARGET, line, variants=4, reduce="norm")
            batch.budget = budget
            assert torch.allclose(gradients(batch, TARGET, line, variants=4, reduce="norm"), expected, atol=1e-12)

    @pytest.mark.parametrize("of", OUTPUTS)
    def test_are_what_autograd_gives_for_all_rows_at_once(self, bert, of):
        model, batch = bert
        with model.frozen():
            actual = gradients(batch, TARGET, lambda reading, _: (reading.full[None], reading.full[None]), output=of)
            read = batch.input_embeddings().requires_grad_()
            value = explained_output(batch.head, batch.logits_from(read), TARGET[batch.rows.input], of)
            (gradient,) = torch.autograd.grad(value.sum(), read)
        assert torch.allclose(actual, batch.to_units(gradient * read, "sum").detach(), atol=1e-12)

    def test_memory_that_runs_out_halves_the_pieces_and_changes_nothing(self, bert, monkeypatch):
        model, batch = prepared()
        forward, costs = type(batch).forward_from, []

        def small(self, piece, embedded):
            costs.append(len(embedded) * piece.size)
            if costs[-1] > 200:
                raise torch.OutOfMemoryError("too much")
            return forward(self, piece, embedded)

        with model.frozen():
            expected = gradients(batch, TARGET, line, variants=4)
            monkeypatch.setattr(type(batch), "forward_from", small)
            assert torch.allclose(gradients(batch, TARGET, line, variants=4), expected, atol=1e-12)
        assert max(costs) > 200 > batch.budget

    def test_tells_how_far_it_is(self, bert):
        model, batch = bert
        progress = []
        with model.frozen():
            gradients(batch, TARGET, line, variants=4, progress=progress.append)
        assert progress == sorted(progress)
        assert progress[-1] == pytest.approx(1)


class TestLogitsFrom:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_every_family_reads_what_it_is_given(self, family):
        """Scaled, projected or normalised on the way: given back its own embeddings, a model says the same."""
        module, tokenizer = tiny(family)
        model = rationales.load(module.double(), tokenizer)
        batch = model.batch(model.encode([TextInput(text) for text in TEXTS]))
        with model.frozen():
            with torch.no_grad():
                for values, keep in ((batch.input_embeddings(), batch.ones()), (batch.all_replaced(), batch.zeros())):
                    assert torch.allclose(batch.logits_from(values), batch.logits(keep), atol=1e-9)
            scores = build("deep-lift").scores(batch, TARGET).scores
        assert torch.isfinite(scores).all()
        assert scores.abs().max() > 1e-6

    @pytest.mark.parametrize("budget", [40, 97, 10**9])
    def test_variants_and_gradients_through_pieces(self, budget):
        model, batch = prepared()
        batch.budget = budget
        with model.frozen():
            read = torch.stack([batch.input_embeddings(), batch.all_replaced()]).requires_grad_()
            logits = batch.logits_from(read)
            assert torch.allclose(logits[0], batch.logits(batch.ones()), atol=1e-10)
            assert torch.allclose(logits[1], batch.logits(batch.zeros()), atol=1e-10)
            (gradient,) = torch.autograd.grad(logits[..., 1].sum(), read)
            leaf = batch.input_embeddings().requires_grad_()
            (alone,) = torch.autograd.grad(batch.logits_from(leaf)[:, 1].sum(), leaf)
        assert torch.allclose(gradient[0], alone, atol=1e-10)

    def test_rows_asked_for_are_those_of_all(self, bert):
        _, batch = bert
        selected = torch.tensor([1, 0])
        for read in (batch.input_embeddings, batch.all_replaced, batch.unit_region):
            cut = read(selected)
            assert torch.equal(cut, read()[selected, : cut.shape[1]])
        values = torch.randn(
            batch.input_embeddings().shape, dtype=batch.dtype, generator=torch.Generator().manual_seed(0)
        )
        for reduce in ("sum", "norm"):
            assert torch.allclose(
                batch.to_units(values, reduce)[selected], batch.to_units(values[selected], reduce, selected)
            )

    def test_tokens_of_a_word_are_added_and_special_ones_left_out(self, bert):
        _, batch = bert
        all_ones = torch.ones(batch.input_embeddings().shape, dtype=batch.dtype)
        size = batch.input_embeddings().shape[-1]
        tokens = torch.stack([(batch.owner == unit).sum(1) for unit in range(batch.size[1])], 1)
        assert torch.equal(batch.to_units(all_ones, "sum"), (tokens * size).to(batch.dtype))
        assert torch.equal(batch.to_units(-all_ones, "norm"), (tokens * size).to(batch.dtype))


class TestOutputsUnderKeeps:
    @pytest.mark.parametrize("budget", [1, 97, 10**9])
    def test_are_the_batchs_own_under_the_same_keeps(self, budget):
        model, batch = prepared()
        keep = torch.rand(5, *batch.size, dtype=batch.dtype, generator=torch.Generator().manual_seed(1))
        with model.frozen(), torch.no_grad():
            index = TARGET[batch.rows.input].expand(5, -1)[..., None]
            expected = batch.logits(keep).softmax(-1).gather(-1, index).squeeze(-1)
            batch.budget = budget
            outputs = outputs_under_keeps(batch, TARGET, lambda row, variant: keep[variant][:, row], 5)
        assert torch.allclose(outputs, expected, atol=1e-10)

    def test_a_row_is_asked_no_more_than_the_longest_of_its_block(self, bert):
        """Each row as often as it has units: with one row a block, not once more."""
        model, batch = prepared()
        batch.budget = 1
        variant_counts = torch.zeros(batch.size[0], dtype=torch.long)

        def keeps(row, variant):
            variant_counts[row] += len(variant)
            return torch.ones(len(variant), len(row), batch.size[1])

        with model.frozen():
            outputs_under_keeps(batch, TARGET, keeps, batch.rows.real.sum(1))
        assert torch.equal(variant_counts, batch.rows.real.sum(1))

    @pytest.mark.parametrize(("views", "budget"), [(1, 10**6), (1, 50), (2, 90)])
    def test_rows_that_repeat_each_with_a_keep_of_its_own(self, views, budget):
        model, batch = prepared(views)
        generator = torch.Generator().manual_seed(1)
        row = torch.randint(batch.size[0], (17,), generator=generator)
        keep = torch.rand(17, batch.size[1], generator=generator, dtype=batch.dtype)
        all_keeps = torch.zeros(17, *batch.size, dtype=batch.dtype)
        all_keeps[torch.arange(17), row] = keep
        with model.frozen(), torch.no_grad():
            expected = batch.score(TARGET, all_keeps)[torch.arange(17), row]
            batch.budget = budget
            outputs = outputs_of_rows(batch, TARGET, row, keep)
            pieces = list(batch.pieces(row))
        assert torch.allclose(outputs, expected, atol=1e-10)
        assert sorted(torch.cat([piece.where for piece in pieces]).tolist()) == list(range(17))
        assert all(len(piece.row) == 1 or piece.size * len(piece.row) <= budget for piece in pieces)

    def test_the_ends_are_nothing_and_everything(self, bert):
        model, batch = bert
        with model.frozen():
            empty, full = baseline_and_full_outputs(batch, TARGET, "probability")
            assert torch.allclose(empty, batch.score(TARGET, batch.zeros()), atol=1e-12)
            assert torch.allclose(full, batch.score(TARGET), atol=1e-12)


class TestCheckGradients:
    def test_a_model_that_fails_once_gradients_are_asked_for_is_told_with_its_reason(self):
        """What goes through numpy on its way runs well without gradients."""
        module, tokenizer = tiny("bert")
        model = rationales.load(module, tokenizer)
        handle = module.bert.register_forward_hook(lambda _module, _arguments, output: output[0].numpy() and None)
        with model.frozen(), pytest.raises(ModelError, match=r"no gradients.*numpy"):
            model.batch(model.encode([TextInput(TEXTS[1])])).check_gradients()
        handle.remove()

    def test_a_network_is_run_once(self):
        module, tokenizer = tiny("bert")
        model = rationales.load(module, tokenizer)
        passes = []
        with model.frozen():
            for text in TEXTS[:2]:
                batch = model.batch(model.encode([TextInput(text)]))
                handle = module.register_forward_hook(lambda *_arguments: passes.append(1))
                batch.check_gradients()
                handle.remove()
        assert len(passes) == 1

    def test_a_batch_without_an_inside_says_so(self):
        batch = _Headed(Head.SOFTMAX)
        for ask in (lambda: batch.modules, batch.input_embeddings, batch.all_replaced, batch.unit_region):
            with pytest.raises(ModelError, match="use occlusion"):
                ask()


class _Headed(Batch):
    """A batch of which only the head matters."""

    def __init__(self, head):
        self.head = head

    def cost(self):
        raise AssertionError

    def forward(self, piece, keep, noise):
        raise AssertionError

    def take(self, inputs):
        raise AssertionError
