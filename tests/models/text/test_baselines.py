"""What a word becomes when it is taken away."""

from __future__ import annotations

import pytest
import torch
from families import FAMILIES, tiny, tokenizer_of
from models.echo import Scaled, echo

import rationales
from rationales.errors import OptionError
from rationales.models.text.baselines import choose, vector


class Bare:
    """A tokenizer without any of the tokens a baseline could be."""

    pad_token_id = mask_token_id = unk_token_id = unk_token = None

    def __call__(self, word, **options):
        return {"input_ids": [ord(mark) for mark in word]}


@pytest.fixture(scope="module")
def bert():
    return tiny("bert")


class TestVector:
    @pytest.mark.parametrize(
        ("name", "token"),
        [("pad", "[PAD]"), ("mask", "[MASK]"), ("unk", "[UNK]"), ("bread", "bread"), ("[SEP]", "[SEP]")],
    )
    def test_a_token_is_its_embedding(self, bert, name, token):
        module, tokenizer = bert
        table = module.get_input_embeddings().weight
        if name == "bread":
            name = token = next(piece for piece in tokenizer.get_vocab() if piece.isalpha() and len(piece) > 1)
        expected = table[tokenizer.convert_tokens_to_ids(token)]
        assert torch.equal(vector(name, tokenizer, module.get_input_embeddings()), expected)

    def test_zero_and_mean(self, bert):
        module, tokenizer = bert
        table = module.get_input_embeddings().weight
        assert torch.equal(vector("zero", tokenizer, module.get_input_embeddings()), torch.zeros(32))
        assert torch.allclose(vector("mean", tokenizer, module.get_input_embeddings()), table.mean(0), atol=1e-6)

    def test_the_mean_of_a_table_larger_than_one_chunk(self):
        table = torch.nn.Embedding(10_000, 3, dtype=torch.float64)
        assert torch.allclose(vector("mean", Bare(), table), table.weight.mean(0), atol=1e-12)

    def test_a_tensor_is_taken_as_it_is_and_kept_apart(self, bert):
        module, tokenizer = bert
        row = module.get_input_embeddings().weight[7]  # a view into the weights, with a graph behind it
        baseline = vector(row, tokenizer, module.get_input_embeddings())
        assert torch.equal(baseline, row)
        assert not baseline.requires_grad
        assert baseline.data_ptr() != row.data_ptr()
        assert vector(torch.arange(32), tokenizer, module.get_input_embeddings()).dtype == row.dtype

    @pytest.mark.parametrize("expected", [torch.zeros(31), torch.zeros(1, 32), torch.tensor(0.0)])
    def test_a_tensor_of_another_shape(self, bert, expected):
        with pytest.raises(OptionError, match=r"shape \(32,\)"):
            vector(expected, bert[1], bert[0].get_input_embeddings())

    def test_a_tensor_that_is_not_finite(self, bert):
        with pytest.raises(OptionError, match="finite"):
            vector(torch.full((32,), float("nan")), bert[1], bert[0].get_input_embeddings())

    @pytest.mark.parametrize("scale", [4.0, 32**0.5])
    def test_the_embeddings_own_scale_is_respected(self, scale):
        """A baseline is what the layer gives out, not a row of its table."""
        tokenizer = tokenizer_of("bert")
        layer = Scaled(len(tokenizer), 6, scale)
        table = layer.table.weight
        assert torch.allclose(vector("mask", tokenizer, layer), scale * table[tokenizer.mask_token_id], atol=1e-12)
        assert torch.allclose(vector("mean", tokenizer, layer), scale * table.mean(0), atol=1e-12)
        assert torch.equal(vector("zero", tokenizer, layer), torch.zeros(6, dtype=torch.float64))
        values = torch.arange(6.0, dtype=torch.float64)
        assert torch.equal(vector(values, tokenizer, layer), values)

    def test_no_weight_gets_a_gradient(self, bert):
        assert not vector("pad", bert[1], bert[0].get_input_embeddings()).requires_grad


class TestUnknown:
    @pytest.mark.parametrize("name", ["pad", "mask"])
    def test_a_token_that_the_tokenizer_does_not_have_lists_what_there_is(self, name):
        module, tokenizer = tiny("gpt2")
        with pytest.raises(OptionError, match=f"no {name} token; choose another baseline: unk, eos, zero, mean"):
            rationales.load(module, tokenizer, baseline=name)

    @pytest.mark.parametrize("word", ["nonsense-baseline", "two words", ""])
    def test_not_one_token(self, bert, word):
        with pytest.raises(OptionError, match="pad, mask, unk, eos, zero, mean"):
            rationales.load(*bert, baseline=word)

    def test_an_unknown_word_is_not_silently_unk(self, bert):
        """漢 is one token, the unknown one: the user meant something else."""
        with pytest.raises(OptionError, match=r"does not know.*pad, mask, unk, eos, zero, mean"):
            rationales.load(*bert, baseline="漢")

    def test_something_else_altogether(self, bert):
        with pytest.raises(OptionError, match="pad, mask, unk, eos, zero, mean"):
            rationales.load(*bert, baseline=5)


class TestChoice:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_the_first_that_the_tokenizer_has(self, family):
        tokenizer = tokenizer_of(family)
        expected = "pad" if tokenizer.pad_token is not None else "unk"  # no family here has mask without pad
        assert choose(None, tokenizer) == expected
        assert rationales.load(*tiny(family)).baseline == expected

    def test_the_mean_where_there_is_no_such_token(self):
        assert choose(None, Bare()) == "mean"

    def test_the_result_says_which(self, bert):
        for baseline, name in [("mask", "mask"), ("soup", "soup"), (torch.zeros(32), "given"), (None, "pad")]:
            if baseline == "soup":
                baseline = name = next(p for p in bert[1].get_vocab() if p.isalpha() and len(p) > 1)
            model = rationales.load(*bert, baseline=baseline)
            assert rationales.explain(model, "A text", method="random").baseline == name

    @pytest.mark.parametrize("baseline", ["pad", "mask", "unk", "zero", "mean"])
    def test_a_text_taken_away_altogether_reads_as_the_baseline(self, baseline):
        """Known answer: the model shows what it reads."""
        module, tokenizer = echo("the bread", scale=3.0)
        model = rationales.load(module, tokenizer, baseline=baseline)
        batch = model.batch(model.encode([rationales.models.text.tokens.TextInput("the bread")]))
        read = batch.logits(batch.zeros()).reshape(-1, 8)
        inside = batch.owner[0] < batch.size[1]
        expected = vector(baseline, tokenizer, module.embedding)
        assert torch.allclose(read[inside], expected.expand(int(inside.sum()), -1), atol=1e-12)
        assert torch.equal(read[~inside], module.embedding(batch.ids[0])[~inside])
