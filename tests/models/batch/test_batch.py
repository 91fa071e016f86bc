"""Rows of units: what the model says of them does not depend on how they are run."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise

import pytest
import torch
from families import FAMILIES, tiny, tokenizer_of
from hypothesis import given, settings
from hypothesis import strategies as st
from models.echo import echo

import rationales
from rationales.models.batch import Noise, pack
from rationales.models.batch.execution import counted_passes
from rationales.models.batch.rows import distinct_rows, fold
from rationales.models.text.tokens import TextInput

TEXTS = [
    "Dull.",
    "I did not like the soup, but the bread wasn't bad at all!",
    "Every morning the baker carried twelve loaves up the hill; " * 6,  # several segments
    ("She said nothing.", "He laughed, and nobody else in the room understood why."),
]


def inputs(*texts):
    return [TextInput(*text) if isinstance(text, tuple) else TextInput(text) for text in texts]


def prepared(*texts, family="bert", views=1, **options):
    """A model in float64 with these texts in one batch."""
    networks = [tiny(family, seed=seed) for seed in range(views)]
    model = rationales.load(
        [module.double() for module, _ in networks], networks[0][1], segment=40, overlap=8, **options
    )
    return model, model.batch(model.encode(inputs(*(texts or TEXTS))))


def anything(batch, *shape):
    """Keeps in [0, 1] for every row, the same for the same shape."""
    generator = torch.Generator().manual_seed(4)
    return torch.rand(*shape, *batch.size, generator=generator, dtype=batch.dtype)


@pytest.fixture(scope="module")
def bert():
    return prepared()


class TestPack:
    @given(st.lists(st.integers(1, 100), min_size=1, max_size=60), st.integers(1, 800))
    def test_every_row_once_and_within_the_budget(self, cost, budget):
        groups = list(pack(cost, budget))
        assert sorted(row for group in groups for row in group) == list(range(len(cost)))
        for group in groups:
            assert len(group) == 1 or len(group) * max(cost[row] for row in group) <= budget

    @given(st.lists(st.integers(1, 100), min_size=1, max_size=60), st.integers(1, 800))
    def test_long_rows_go_with_long_rows(self, cost, budget):
        """So that little is padding: no group holds a row longer than the shortest of the group before."""
        groups = [[cost[row] for row in group] for group in pack(cost, budget)]
        assert all(min(before) >= max(after) for before, after in pairwise(groups))

    @given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(1, 300), st.none() | st.integers(1, 200))
    def test_equals_the_literal_rule_row_by_row(self, cost, budget, sufficient_cost):
        assert list(pack(cost, budget, sufficient_cost)) == packed_row_by_row(cost, budget, sufficient_cost)

    @given(st.lists(st.integers(1, 100), min_size=1, max_size=60))
    def test_one_group_when_everything_fits(self, cost):
        assert len(list(pack(cost, max(cost) * len(cost)))) == 1


def packed_row_by_row(cost, budget, sufficient_cost):
    """Longest rows first; a row begins a new group where the group is full, or sufficient and the row much shorter."""
    groups = [[]]
    for row in sorted(range(len(cost)), key=lambda row: -cost[row]):
        if groups[-1]:
            longest, shortest = cost[groups[-1][0]], cost[groups[-1][-1]]
            full = longest * (len(groups[-1]) + 1) > budget
            sufficient = sufficient_cost is not None and longest * len(groups[-1]) >= sufficient_cost
            if full or (sufficient and cost[row] < (longest if shortest == longest else 0.9 * longest)):
                groups.append([])
        groups[-1].append(row)
    return groups


class TestDistinctRows:
    @given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=40))
    def test_finds_the_first_of_equal_rows(self, lines):
        first, inverse = distinct_rows(torch.tensor(lines))
        assert [lines[first[number]] for number in inverse.tolist()] == lines
        assert sorted(first.tolist()) == sorted({lines.index(line) for line in lines})

    def test_rows_of_the_same_hash_are_told_apart(self, monkeypatch):
        monkeypatch.setattr("rationales.models.batch.rows.mix", lambda value: value * 0)
        matrix = torch.tensor([[1, 2], [2, 1], [1, 2]])
        first, inverse = distinct_rows(matrix)
        assert matrix[first[inverse]].tolist() == matrix.tolist()
        assert len(first) == 2


class TestLogits:
    @pytest.mark.parametrize("budget", [1, 40, 97, 300, 10**6])
    @pytest.mark.parametrize("family", ["bert", "gpt2", "deberta-v2"])
    def test_the_budget_changes_nothing(self, family, budget):
        model, batch = prepared(family=family)
        keep = anything(batch, 3)
        with model.frozen(), torch.no_grad():
            expected = batch.logits(keep)
            tight = model.batch(model.encode(inputs(*TEXTS)))
            tight.budget = budget
            assert torch.allclose(tight.logits(keep), expected, atol=1e-10, rtol=0)

    def test_the_budget_changes_float32_by_rounding_only(self):
        module, tokenizer = tiny("bert")
        model = rationales.load(module, tokenizer, segment=40)
        batch = model.batch(model.encode(inputs(*TEXTS)))
        keep = anything(batch, 2).float()
        with model.frozen(), torch.no_grad():
            expected = batch.logits(keep)
            batch.budget = 80
            assert torch.allclose(batch.logits(keep), expected, atol=1e-6, rtol=1e-6)

    @pytest.mark.parametrize("budget", [1, 97])
    def test_gradients_are_the_same_when_pieces_are_run_again(self, bert, budget):
        model, _ = bert

        def slope(budget):
            batch = model.batch(model.encode(inputs(*TEXTS)))
            batch.budget = budget
            keep = anything(batch, 2).requires_grad_()
            noise = Noise(0.1, fold(batch.rows.key, 3).repeat(2))
            with model.frozen():
                weights = torch.linspace(-1, 1, batch.classes, dtype=batch.dtype)
                (batch.logits(keep, noise).softmax(-1) * weights).sum().backward()
            return keep.grad

        at_once, pieces = slope(10**9), slope(budget)
        assert torch.allclose(pieces, at_once, atol=1e-12, rtol=1e-9)
        assert at_once.abs().max() > 1e-3

    @pytest.mark.parametrize(("share", "twice"), [(1.0, 0.0), (0.8, 0.5), (0.0, 1.0)])
    def test_only_what_memory_does_not_hold_is_run_twice(self, bert, share, twice, monkeypatch):
        model, _ = bert
        batch = model.batch(model.encode(inputs(*TEXTS)))
        monkeypatch.setitem(type(batch).sufficient_cost, "cpu", 1)  # many pieces
        batch.budget = 10**9
        cost = [row_cost for row_cost in batch.cost() for _ in range(3)]
        batch.budget = max(int(share * batch.cost_of(cost)), 1)
        run = []
        forward = type(batch).forward
        monkeypatch.setattr(
            type(batch), "forward", lambda *arguments: run.append(len(arguments[2])) or forward(*arguments)
        )
        keep = anything(batch, 3).requires_grad_()
        with model.frozen():
            torch.autograd.grad(batch.logits(keep).sum(), keep)
        again = (sum(run) - len(cost)) / len(cost)
        assert again == twice if twice in (0, 1) else 0 < again < 1

    def test_the_slope_is_what_a_small_change_does(self, bert):
        """Central differences, in float64, for every unit of one row."""
        model, _ = bert
        batch = model.batch(model.encode(inputs(TEXTS[1])))
        keep = anything(batch).requires_grad_()
        with model.frozen():
            (slope,) = torch.autograd.grad(batch.logits(keep)[0, 1], keep)
            with torch.no_grad():
                step = 1e-5 * torch.eye(batch.size[1], dtype=batch.dtype)[:, None]  # (n, 1, n)
                change = (batch.logits(keep + step) - batch.logits(keep - step))[:, 0, 1] / 2e-5
        assert torch.allclose(change, slope[0], atol=1e-7)

    def test_variants_are_what_each_would_be_alone(self, bert):
        model, batch = bert
        keep = anything(batch, 5)
        with model.frozen(), torch.no_grad():
            together = batch.logits(keep)
            for number in range(5):
                assert torch.allclose(together[number], batch.logits(keep[number]), atol=1e-10, rtol=0)

    def test_keeps_of_units_that_do_not_exist_change_nothing(self, bert):
        model, batch = bert
        keep = anything(batch)
        with model.frozen(), torch.no_grad():
            changed = torch.where(batch.rows.real, keep, 1 - keep)
            assert torch.equal(batch.logits(keep), batch.logits(changed))

    def test_noise_of_a_row_does_not_depend_on_its_company(self, bert):
        model, batch = bert
        with model.frozen(), torch.no_grad():
            expected = batch.logits(batch.ones(), Noise(0.2, batch.rows.key))
            assert not torch.allclose(expected, batch.logits(batch.ones()), atol=1e-3)
            for number in range(len(TEXTS)):
                alone = batch.take([number])
                rows = batch.rows.input == number
                assert torch.allclose(alone.logits(alone.ones(), Noise(0.2, alone.rows.key)), expected[rows], atol=1e-9)

    def test_out_of_memory_with_the_smallest_piece_is_not_hidden(self, bert, monkeypatch):
        model, _ = bert
        batch = model.batch(model.encode(inputs(TEXTS[1])))

        def full(*_):
            raise torch.OutOfMemoryError("no room at all")

        monkeypatch.setattr(type(batch), "forward", full)
        with pytest.raises(torch.OutOfMemoryError, match="no room at all"):
            batch.logits(batch.ones())


class TestReplacing:
    @pytest.mark.parametrize("family", ["bert", "electra", "gpt2", "mistral"])
    @settings(max_examples=8)
    @given(data=st.data())
    def test_hard_keeps_are_embeddings_replaced_by_hand(self, family, data):
        """Literal: the word embeddings of a text, some rows overwritten, fed in through inputs_embeds."""
        module, tokenizer = _tiny(family)
        model = rationales.load(module, tokenizer, baseline="unk")
        batch = model.batch(model.encode(inputs(TEXTS[1])))
        hidden = data.draw(st.sets(st.integers(0, batch.size[1] - 1)))
        keep = batch.ones()
        keep[0, list(hidden)] = 0
        encoding = tokenizer(TEXTS[1], return_tensors="pt")
        table = module.get_input_embeddings().weight
        with model.frozen(), torch.no_grad():
            logits = batch.logits(keep)
            words = table[encoding["input_ids"][0]].clone()
            for position, unit in enumerate(batch.owner[0].tolist()):
                if unit in hidden:
                    words[position] = table[tokenizer.unk_token_id]
            types = {
                name: encoding[name] for name in encoding if name == "token_type_ids" and family in ("bert", "electra")
            }
            expected = module(inputs_embeds=words[None], attention_mask=encoding["attention_mask"], **types).logits
        assert torch.allclose(logits, expected, atol=1e-9, rtol=0)

    def test_what_the_model_reads_is_the_blend(self):
        """Eq. 1 by hand, read off a model that shows what it reads."""
        text = "The bread wasn't stale"
        module, tokenizer = echo(text, scale=2.5)
        model = rationales.load(module, tokenizer, baseline="mask")
        batch = model.batch(model.encode(inputs(text)))
        keep = anything(batch)
        read = batch.logits(keep).reshape(-1, 8)
        words = 2.5 * module.embedding.table.weight[tokenizer(text)["input_ids"]]
        mask = 2.5 * module.embedding.table.weight[tokenizer.mask_token_id]
        for position, unit in enumerate(batch.owner[0].tolist()):
            share = keep[0, unit] if unit < batch.size[1] else 1.0
            assert torch.allclose(read[position], share * words[position] + (1 - share) * mask, atol=1e-12)

    def test_noise_is_relative_to_the_words_and_spares_special_tokens(self):
        text = "bread " * 40
        module, tokenizer = echo(text, size=64)
        model = rationales.load(module, tokenizer)
        batch = model.batch(model.encode(inputs(text)))
        plain = batch.logits(batch.ones()).reshape(-1, 64)
        noisy = batch.logits(batch.ones(), Noise(0.06, batch.rows.key)).reshape(-1, 64)
        inside = batch.owner[0] < batch.size[1]
        assert torch.equal(noisy[~inside], plain[~inside])
        size = plain[inside].square().mean().sqrt()
        noise_values = (noisy - plain)[inside] / (0.06 * size)
        count = noise_values.numel()
        assert abs(noise_values.mean()) < 5 / count**0.5
        assert abs(noise_values.var() - 1) < 5 * (2 / count) ** 0.5

    def test_embeddings_can_be_given_directly(self, bert):
        model, batch = bert
        with model.frozen(), torch.no_grad():
            assert torch.allclose(
                batch.logits_from(batch.input_embeddings()), batch.logits(batch.ones()), atol=1e-10, rtol=0
            )


class TestTake:
    @pytest.mark.parametrize("chosen", [[0], [2], [0, 2], [1, 3], [0, 1, 2, 3]])
    @pytest.mark.parametrize("views", [1, 2])
    def test_equals_the_batch_of_these_inputs_alone(self, chosen, views):
        model, batch = prepared(views=views)
        subset, alone = batch.take(chosen), model.batch(model.encode(inputs(*(TEXTS[number] for number in chosen))))
        assert subset.rows.contrast is alone.rows.contrast is None
        for row_field in (row_field for row_field in fields(alone.rows) if row_field.name != "contrast"):
            assert torch.equal(getattr(subset.rows, row_field.name), getattr(alone.rows, row_field.name)), (
                row_field.name
            )
        for name in ("ids", "attention", "types", "owner"):
            assert torch.equal(getattr(subset, name), getattr(alone, name)), name
        assert (subset.lengths, subset.inputs, subset.masks) == (alone.lengths, alone.inputs, alone.masks)
        with model.frozen(), torch.no_grad():
            keep = anything(alone)
            assert torch.equal(subset.logits(keep), alone.logits(keep))


class TestPutTogether:
    @pytest.mark.parametrize("views", [1, 3])
    def test_gather_undoes_spread(self, views):
        _, batch = prepared(views=views)
        generator = torch.Generator().manual_seed(1)
        lengths = [len(scores) for scores in batch.gather(batch.zeros())]
        values = [torch.rand(length, generator=generator, dtype=batch.dtype) for length in lengths]
        for gathered, expected in zip(batch.gather(batch.spread(values)), values, strict=True):
            assert torch.allclose(gathered, expected, atol=1e-12, rtol=0)

    def test_every_input_has_a_score_for_every_unit(self, bert):
        model, batch = bert
        units = [len(values.units) for values in model.encode(inputs(*TEXTS))]
        assert [len(values) for values in batch.gather(batch.ones())] == units
        assert all(torch.allclose(values, torch.ones_like(values)) for values in batch.gather(batch.ones()))

    def test_overlaps_are_blended_linearly(self):
        """Each segment scores its units with its own number: the change from one to the next is a straight line."""
        _, batch = prepared(TEXTS[2])
        rows = batch.size[0]
        assert rows > 2
        number = torch.arange(rows, dtype=batch.dtype)[:, None].expand(batch.size)
        (blended,) = batch.gather(number)
        assert float(blended[0]) == 0
        assert float(blended[-1]) == pytest.approx(rows - 1)
        for row in range(1, rows):
            before, here = (
                batch.rows.unit[row - 1][batch.rows.real[row - 1]],
                batch.rows.unit[row][batch.rows.real[row]],
            )
            shared = sorted(set(before.tolist()) & set(here.tolist()))
            ramp = [row - 1 + step / (len(shared) + 1) for step in range(1, len(shared) + 1)]
            assert blended[shared].tolist() == pytest.approx(ramp)

    def test_pool_is_the_mean_over_segments_of_each_view(self):
        _, batch = prepared(views=2)
        values = anything(batch)[:, :5]
        pooled = batch.pool(values)
        assert pooled.shape == (len(TEXTS), 2, 5)
        for number in range(len(TEXTS)):
            for view in range(2):
                rows = (batch.rows.input == number) & (batch.rows.view == view)
                assert torch.allclose(pooled[number, view], values[rows].mean(0), atol=1e-12)
        assert torch.allclose(batch.pool(torch.stack([values, 2 * values]))[1], 2 * pooled, atol=1e-12)

    def test_predict_averages_probabilities_and_not_logits(self, bert):
        model, batch = bert
        with model.frozen(), torch.no_grad():
            rows = batch.logits(batch.ones()).softmax(-1)
            predicted = batch.predict()
        for number in range(len(TEXTS)):
            assert torch.allclose(predicted[number], rows[batch.rows.input == number].mean(0), atol=1e-12)


class TestJointly:
    """Several models with one tokenizer."""

    def test_probabilities_are_the_mean_of_the_models(self):
        model, batch = prepared(views=3)
        with model.frozen():
            predicted = batch.predict()
            alone = []
            for network in model.networks:
                single = rationales.load(network.module, model.tokenizer, segment=40, overlap=8)
                alone.append(single.batch(single.encode(inputs(*TEXTS))).predict())
        assert torch.allclose(predicted, torch.stack(alone).mean(0), atol=1e-12)

    @pytest.mark.parametrize("method", ["marc", "occlusion", "integrated-gradients", "smooth-grad", "lime"])
    def test_a_model_beside_itself_explains_as_it_does_alone(self, method):
        """Without noise, and levels that each draws for itself, the two halves of the loss are equal: in float64 only
        rounding is left."""
        module, tokenizer = tiny("bert")
        module = module.double()
        one_mask = {"mask_weight": 1.0, "level_weight": 0.0, "warmup_steps": 0, "initial_w": 1.2}
        options = (
            {**one_mask, "noise": 0.0, "flip_share": 0.0, "steps": 15, "stop": "steps"} if method == "marc" else {}
        )
        results = [
            rationales.explain(rationales.load(source, tokenizer), TEXTS[1], method=method, options=options)
            for source in (module, [module, module])
        ]
        assert results[0].scores == pytest.approx(results[1].scores, abs=1e-6)
        for name, values in results[0].probabilities.items():
            assert values == pytest.approx(results[1].probabilities[name], abs=2e-6)

    @pytest.mark.parametrize("pads", [(1, 4), (4, 1), (1, None), (None, 1)])
    def test_decoders_with_different_padding_each_read_their_own_last_token(self, pads):
        modules = [tiny("qwen2", seed=seed, pad_token_id=pad)[0].double() for seed, pad in enumerate(pads)]
        tokenizer = tokenizer_of("qwen2")
        together = rationales.load(modules, tokenizer)
        with together.frozen():
            predicted = together.batch(together.encode(inputs(*TEXTS[:2]))).predict()
        for number, text in enumerate(TEXTS[:2]):
            with torch.no_grad():
                plain = [module(**tokenizer(text, return_tensors="pt")).logits.softmax(-1)[0] for module in modules]
            assert torch.allclose(predicted[number], torch.stack(plain).mean(0), atol=1e-9)
        assert tuple(module.config.pad_token_id for module in modules) == pads

    def test_different_models_share_one_mask(self):
        _, batch = prepared(views=2)
        assert batch.masks * 2 == batch.size[0]
        assert torch.equal(batch.rows.mask[: batch.masks], batch.rows.mask[batch.masks :])
        assert torch.equal(batch.rows.key[: batch.masks], batch.rows.key[batch.masks :])

    def test_embeddings_of_different_sizes_lie_side_by_side(self):
        """Each row is read by its own network: filled up with zeros, and cut again."""
        tokenizer = tokenizer_of("bert")
        modules = [tiny("bert")[0], tiny("bert", seed=1, hidden_size=16, num_attention_heads=2)[0]]
        model = rationales.load([module.double() for module in modules], tokenizer, segment=40, overlap=8)
        batch = model.batch(model.encode(inputs(*TEXTS)))
        with model.frozen(), torch.no_grad():
            assert batch.input_embeddings().shape[-1] == 32
            assert not batch.input_embeddings()[batch.masks :, :, 16:].any()
            assert torch.allclose(
                batch.logits_from(batch.input_embeddings()), batch.logits(batch.ones()), atol=1e-10, rtol=0
            )
            assert torch.allclose(
                batch.logits_from(batch.all_replaced()), batch.logits(batch.zeros()), atol=1e-10, rtol=0
            )


class TestLimit:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_a_full_segment_is_what_the_model_takes_and_not_one_token_more(self, family):
        """The longest rows run; where positions come from a table, one more token would not."""
        module, tokenizer = tiny(family)
        model = rationales.load(module, tokenizer)
        assert model.limit == 64
        batch = model.batch(model.encode(inputs("a " * 400)))
        assert max(batch.lengths) > 56
        with model.frozen(), torch.no_grad():
            assert torch.isfinite(batch.logits(batch.ones())).all()


def _tiny(family, cache={}):  # noqa: B006  # one model for all examples
    if family not in cache:
        module, tokenizer = tiny(family)
        cache[family] = module.double(), tokenizer
    return cache[family]


class TestBaselineAlone:
    EQUAL_LENGTHS = ("the bread was bad", "the soup was dull", "the bread was bad", "the old bridge was calm and dull")

    @pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "gpt2"])
    @pytest.mark.parametrize("views", [1, 2])
    def test_is_what_the_model_says_of_every_row_with_all_units_replaced(self, family, views):
        model, batch = prepared(*TEXTS[:3], *self.EQUAL_LENGTHS, family=family, views=views)
        with model.frozen():
            assert torch.allclose(batch.predict_baseline(), batch.predict(batch.zeros()), rtol=0, atol=1e-12)

    def test_of_pairs_whose_texts_have_other_lengths(self):
        pairs = [
            ("the bread", "the soup was dull"),
            ("the bread was dull", "the soup"),
            ("the soup", "the bread was bad"),
        ]
        model, batch = prepared(*pairs)
        with model.frozen():
            assert torch.allclose(batch.predict_baseline(), batch.predict(batch.zeros()), rtol=0, atol=1e-12)

    def test_equal_rows_are_run_once(self):
        model, batch = prepared(*self.EQUAL_LENGTHS)
        same_length = len(set(batch.lengths)) < len(batch.lengths)
        assert same_length
        with model.frozen(), counted_passes() as passes:
            batch.predict_baseline()
        assert passes.forward == len(set(batch.lengths))

    def test_a_padding_token_in_a_text_is_not_taken_for_another_word(self):
        """RoBERTa counts positions by what is no padding."""
        tokenizer = tokenizer_of("roberta")
        texts = [f"the {tokenizer.pad_token} bread was bad", "the very bread was bad"]
        model, batch = prepared(*texts, family="roberta")
        with model.frozen():
            assert torch.allclose(batch.predict_baseline(), batch.predict(batch.zeros()), rtol=0, atol=1e-12)
