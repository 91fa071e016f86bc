"""Words deleted from texts and written into them: what the model then reads, and how often it reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from families import FAMILIES, tiny
from hypothesis import given
from hypothesis import strategies as st
from methods.keyword import keyword_model
from models.image.test_model import detector, scene
from reference.edits import edited_tokens

import rationales
from rationales.errors import OptionError
from rationales.models.batch.queries import outputs_under_keeps, outputs_when_deleted
from rationales.models.text import batch as text_batch
from rationales.models.text.edits import Insertions, TokenTable, edit_rows
from rationales.models.text.text_sources import preceding, rewrite
from rationales.models.text.tokens import TextInput

TEXTS = ["I did not like the soup, but the bread wasn't bad at all!", "Dull.", "She said nothing; he laughed."]
LONG = "Every morning the baker carried twelve loaves up the hill; " * 6


def batch_of(model, texts):
    return model.batch(model.encode([TextInput(text) for text in texts]))


def plain_logits(model, text):
    encoding = model.tokenizer(text, return_tensors="pt")
    names = model.tokenizer.model_input_names
    return model.networks[0].module(**{name: encoding[name] for name in names}).logits[0]


def rows_read(module):
    """Number of rows that go through a module from now on, in a list that grows."""
    counts = []
    module.register_forward_pre_hook(
        lambda _module, _arguments, named: counts.append(len(named["input_ids"])), with_kwargs=True
    )
    return counts


@st.composite
def tables(draw):
    """Rows with special tokens at both ends and units of one to three tokens, edits of them, and a limit."""
    units = draw(st.integers(1, 5))
    rows = []
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(1, units))
        sizes = [draw(st.integers(1, 3)) for _ in range(count)]
        special = draw(st.sampled_from([(1, 1), (1, 0), (0, 0)]))
        owner = [-1] * special[0] + [unit for unit, size in enumerate(sizes) for _ in range(size)] + [-1] * special[1]
        rows.append(([draw(st.integers(10, 99)) for _ in owner], [draw(st.integers(0, 1)) for _ in owner], owner))
    edits = []
    for _ in range(draw(st.integers(1, 6))):
        row = draw(st.integers(0, len(rows) - 1))
        kept = [draw(st.booleans()) for _ in range(units)]
        words = {
            unit: draw(st.lists(st.integers(100, 120), min_size=1, max_size=3))
            for unit in range(units)
            if not kept[unit] and draw(st.booleans())
        }
        edits.append((row, kept, words))
    return units, rows, edits, draw(st.integers(2, 20))


@given(tables())
def test_edited_rows_equal_the_slow_reference(case):
    units, rows, edits, limit = case
    size = max(len(ids) for ids, _, _ in rows)

    def table(values, fill):
        return torch.tensor([[*line, *[fill] * (size - len(line))] for line in values])

    tokens = TokenTable(
        table([ids for ids, _, _ in rows], 7),
        table([types for _, types, _ in rows], 0),
        table([[unit if unit >= 0 else units for unit in owner] for _, _, owner in rows], units),
        torch.tensor([len(ids) for ids, _, _ in rows]),
        units,
        limit,
        7,
    )
    inserted = [
        (number, unit, order, token)
        for number, (_, _, words) in enumerate(edits)
        for unit, ids in words.items()
        for order, token in enumerate(ids)
    ]
    insertions = Insertions(*torch.tensor(inserted, dtype=torch.long).reshape(-1, 4).T)
    row, keep = torch.tensor([row for row, _, _ in edits]), torch.tensor([kept for _, kept, _ in edits])
    edited = edit_rows(tokens, row, keep, insertions)
    for number, (row_number, kept, words) in enumerate(edits):
        expected = edited_tokens(*rows[row_number], kept, words, limit, 7)
        length = int(edited.lengths[number])
        assert edited.ids[number, :length].tolist() == expected[0]
        assert edited.types[number, :length].tolist() == expected[1]
        assert (edited.ids[number, length:] == 7).all()
    for (number, _, _, token), position in zip(inserted, edited.inserted_at.tolist(), strict=True):
        assert position < 0 or int(edited.ids[number, position]) == token
    distinct, inverse = edited.distinct()
    assert torch.equal(edited.ids[distinct][inverse], edited.ids)
    lines = {
        (tuple(ids), tuple(types), length)
        for ids, types, length in zip(edited.ids.tolist(), edited.types.tolist(), edited.lengths.tolist(), strict=True)
    }
    assert len(distinct) == len(lines)


@pytest.mark.parametrize("family", FAMILIES)
class TestEveryFamily:
    def test_deletion_is_the_plain_model_on_the_shorter_text(self, family):
        model = rationales.load(*tiny(family))
        with model.frozen(), torch.no_grad():
            batch = batch_of(model, TEXTS)
            assert torch.allclose(batch.logits_deleted(batch.ones()), batch.logits(batch.ones()), atol=1e-5)
            for unit in (0, 1, 4):
                keep = batch.ones()
                keep[:, unit] = 0
                shorter = batch.logits_deleted(keep)
                for number, encoded in enumerate(batch.sources.encoded):
                    kept = keep[number, : len(encoded.units)].numpy() > 0
                    if kept.any() and kept[0]:  # byte-level tokenizers spell the first word of a text in another way
                        text = rewrite(encoded, kept).text
                        assert torch.allclose(shorter[number], plain_logits(model, text), atol=1e-5, rtol=1e-5)

    def test_other_words_are_the_plain_model_on_the_other_text(self, family):
        model = rationales.load(*tiny(family))
        with model.frozen(), torch.no_grad():
            batch = batch_of(model, TEXTS[:1])
            (encoded,) = batch.sources.encoded
            for unit, word in ((0, "Nobody"), (5, "bridge"), (6, "!"), (13, "joke"), (14, ".")):
                keep = torch.ones(1, len(encoded.units), dtype=torch.bool)
                keep[0, unit] = False
                (ids,) = batch.sources.token_ids([(preceding(encoded, encoded.units[unit]), word)])
                count = torch.zeros(len(ids), dtype=torch.long)
                insertions = Insertions(count, count + unit, torch.arange(len(ids)), torch.tensor(ids))
                logits = batch.logits_of_edits(torch.zeros(1, dtype=torch.long), keep, insertions)
                text = rewrite(encoded, keep[0].numpy(), {unit: word}).text
                assert torch.allclose(logits[0], plain_logits(model, text), atol=1e-5, rtol=1e-5), (unit, word)


class TestDeletion:
    def test_a_text_without_words_is_its_special_tokens(self):
        model = rationales.load(*tiny("bert"))
        with model.frozen(), torch.no_grad():
            batch = batch_of(model, ["Dull", "soup"])
            logits = batch.logits_deleted(batch.zeros())
            assert torch.allclose(logits, plain_logits(model, "").expand_as(logits), atol=1e-6)

    def test_a_decoder_without_special_tokens_reads_one_padding_token(self):
        model = rationales.load(*tiny("gpt2"))
        with model.frozen(), torch.no_grad():
            batch = batch_of(model, ["Dull"])
            ids = torch.tensor([[model.filler]])
            plain = model.networks[0].module(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
            assert torch.allclose(batch.logits_deleted(batch.zeros()), plain, atol=1e-6)

    def test_the_segments_of_a_long_text_become_shorter_one_by_one(self):
        model = rationales.load(*tiny("bert"))
        with model.frozen(), torch.no_grad():
            batch = batch_of(model, [LONG])
            assert batch.size[0] > 1
            keep = batch.ones()
            keep[0, 2] = 0
            logits = batch.logits_deleted(keep)
            ids = [token for token, unit in zip(batch.ids[0], batch.owner[0], strict=True) if unit != 2]
            ids = torch.stack(ids)[None]
            first = model.networks[0].module(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
            assert torch.allclose(logits[0], first[0], atol=1e-5)
            assert torch.allclose(logits[1:], batch.logits(batch.ones())[1:], atol=1e-5)

    def test_equal_rows_are_read_once_however_they_came_about(self):
        """Without either 'very', or in either of two equal texts, the model reads the same."""
        model = rationales.load(*tiny("bert"))
        batch = batch_of(model, ["a very very dull soup", "a very very dull soup"])
        keep = batch.ones().repeat(3, 1, 1)
        keep[0, :, 1] = 0
        keep[1, :, 2] = 0
        with model.frozen():
            counts = rows_read(model.networks[0].module)
            logits = batch.logits_deleted(keep)
        assert sum(counts) == 2
        assert torch.equal(logits[0], logits[1])
        assert torch.equal(logits[:, 0], logits[:, 1])

    @pytest.mark.parametrize("tokens", [1, 40, 100])
    def test_how_many_are_prepared_together_changes_nothing(self, monkeypatch, tokens):
        model = rationales.load(*tiny("bert"))
        generator = torch.Generator().manual_seed(0)
        with model.frozen():
            batch = batch_of(model, [*TEXTS, LONG])
            keep = torch.rand(6, *batch.size, generator=generator) < 0.7
            expected = batch.logits_deleted(keep)
            monkeypatch.setattr(text_batch, "EDITED_TOKENS", tokens)
            assert torch.allclose(batch.logits_deleted(keep), expected, atol=1e-5)

    def test_a_subset_of_rows_and_of_inputs(self):
        model = rationales.load(*tiny("bert"))
        with model.frozen():
            batch = batch_of(model, TEXTS)
            keep = (torch.arange(batch.size[1]) % 3 > 0).expand(batch.size)
            logits = batch.logits_deleted(keep)
            assert torch.allclose(batch.logits_deleted(keep[[2, 0]], torch.tensor([2, 0])), logits[[2, 0]], atol=1e-5)
            last = batch.take([2])
            assert torch.allclose(last.logits_deleted(keep[2:, : last.size[1]]), logits[2:], atol=1e-5)

    def test_several_networks_read_their_own_rows(self):
        modules = [tiny("bert", seed=seed)[0] for seed in (0, 1)]
        model = rationales.load(modules, tiny("bert")[1])
        alone = [rationales.load(module, tiny("bert")[1]) for module in modules]
        with model.frozen():
            keep = (torch.arange(15) % 4 > 0).float()
            together = batch_of(model, TEXTS[:1]).logits_deleted(keep.repeat(2, 1))
            for number, single in enumerate(alone):
                with single.frozen():
                    expected = batch_of(single, TEXTS[:1]).logits_deleted(keep[None])
                assert torch.allclose(together[number], expected[0], atol=1e-5)

    def test_the_pixels_of_an_image_cannot_be_deleted(self):
        model = detector()
        batch = model.batch(model.encode([model.read(scene(0, 0), None)]))
        with pytest.raises(OptionError, match="only the words of texts can be deleted"):
            batch.logits_deleted(batch.ones())


def test_a_word_in_the_place_of_a_hyphen_does_not_continue_the_word_before_it():
    model = rationales.load(*tiny("bert"))
    batch = batch_of(model, ["a door-room"])
    (encoded,) = batch.sources.encoded
    hyphen = encoded.units[2]
    assert (hyphen.text, preceding(encoded, hyphen)) == ("-", "r")
    (ids,) = batch.sources.token_ids([("r", "the")])
    assert ids == model.tokenizer("the", add_special_tokens=False)["input_ids"]


def test_a_word_after_the_same_text_is_tokenised_once_with_the_same_ids(monkeypatch):
    model = rationales.load(*tiny("bert"))
    pairs = [(before, word) for before in ("a ", "r", "-") for word in ("the", "soup", "unheard")]
    expected = [batch_of(model, ["a door-room"]).sources.token_ids([pair])[0] for pair in pairs]
    sources = batch_of(model, ["a door-room"]).sources
    tokenised = []
    plain = type(sources)._tokenize
    monkeypatch.setattr(type(sources), "_tokenize", lambda self, texts: tokenised.extend(texts) or plain(self, texts))
    assert sources.token_ids(pairs[:5]) == expected[:5]
    assert sources.token_ids([*pairs[3:], *pairs, pairs[0]]) == [*expected[3:], *expected, expected[0]]
    assert sorted(text for text in tokenised if text in ("a the", "rthe", "-the")) == ["-the", "a the", "rthe"]


class TestQuery:
    def test_outputs_are_those_of_single_deletions(self):
        model = rationales.load(*tiny("bert"))
        with model.frozen():
            batch = batch_of(model, TEXTS)
            target = torch.tensor([0, 1, 2])
            counts = batch.rows.real.sum(1)

            def keeps(row, variant):
                return (torch.arange(batch.size[1]) != variant[:, None, None]).expand(-1, len(row), -1)

            outputs = outputs_when_deleted(batch, target, keeps, counts, output="logit")
            assert outputs.shape == (15, 3)
            for row, count in enumerate(counts.tolist()):
                for unit in range(count):
                    keep = batch.ones()
                    keep[:, unit] = 0
                    assert outputs[unit, row] == pytest.approx(
                        float(batch.logits_deleted(keep)[row, target[row]]), abs=1e-5
                    )

    def test_where_a_model_ignores_padding_deletion_and_pad_agree(self):
        """The keyword model counts two words and nothing else: it does not matter how another one disappears."""
        model = rationales.load(*keyword_model("bridge", "joke"))
        with model.frozen():
            batch = batch_of(model, ["the old bridge and the joke"])
            target = torch.tensor([1])

            def keeps(row, variant):
                return (torch.arange(batch.size[1]) != variant[:, None, None]).expand(-1, len(row), -1)

            deleted = outputs_when_deleted(batch, target, keeps, 6)
            replaced = outputs_under_keeps(batch, target, keeps, 6)
            assert np.allclose(deleted, replaced, atol=1e-6)
