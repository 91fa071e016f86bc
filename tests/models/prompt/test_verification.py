"""Ways of reading rows behind a prefix are compared with plain passes, and the fastest that agrees is taken."""

from __future__ import annotations

import pytest
import torch
from language_models import UNUSUAL_MODELS, tiny_language_model
from models.prompt.test_label_probabilities import LABELS, TEMPLATE, TEXTS, TOLERANCE, expected, logits

import rationales
from rationales.errors import ModelError
from rationales.models.prompt.prefix import verification
from rationales.models.prompt.prefix.readouts import PrefixReading

PROMPT = {"labels": LABELS, "template": TEMPLATE, "baseline": "mean"}
COPIED = {"gpt-oss", "deepseek-v3"}  # exact with keys and values in a cache


@pytest.mark.parametrize("family", UNUSUAL_MODELS)
def test_unusual_architectures_are_exact(family):
    model = rationales.load(*tiny_language_model(family), **PROMPT)
    together = logits(model, TEXTS)
    for number, text in enumerate(TEXTS):
        assert torch.allclose(together[number], expected(model, text, LABELS), atol=TOLERANCE)
    reading = model.networks[0].module.verification.reading
    assert reading is (PrefixReading.COPIED if family in COPIED else PrefixReading.SEPARATE)


@pytest.mark.parametrize("family", UNUSUAL_MODELS)
def test_gradients_reach_the_words(family):
    model = rationales.load(*tiny_language_model(family), **PROMPT)
    with model.frozen():
        batch = model.batch(model.encode([model.read(TEXTS[1], None)]))
        keep = torch.full(batch.size, 0.7, requires_grad=True)
        (gradient,) = torch.autograd.grad(batch.logits(keep)[0, 0], keep)
    assert (gradient != 0).all()


def test_a_window_longer_than_the_rows_that_are_compared(monkeypatch):
    monkeypatch.setattr(verification, "LONGEST", 10)
    model = rationales.load(*tiny_language_model("gpt-neo", window_size=30), **PROMPT)
    network = model.networks[0].module
    assert network.verification.reach == 30
    short = rationales.load(*tiny_language_model("gpt-neo", window_size=30), **PROMPT | {"template": "{text}"})
    assert short.networks[0].module.verification.reading_of(12) is network.verification.reading
    assert network.verification.reading_of(31) is PrefixReading.SEPARATE
    for text in TEXTS:
        assert torch.allclose(logits(model, [text])[0], expected(model, text, LABELS), atol=TOLERANCE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_told_from_another_attention(dtype):
    readings = {}
    for family in ("llama", "gemma2", "mpt"):
        module, tokenizer = tiny_language_model(family)
        model = rationales.load(module.to(dtype), tokenizer, **PROMPT)
        readings[family] = model.networks[0].module.verification.reading
    assert readings == {"llama": PrefixReading.SHARED, "gemma2": PrefixReading.COPIED, "mpt": PrefixReading.SEPARATE}


class Scaled(torch.nn.Module):
    """A language model that reads word embeddings in another way than tokens."""

    def __init__(self, module):
        super().__init__()
        self.module, self.config = module, module.config

    def get_input_embeddings(self):
        return self.module.get_input_embeddings()

    def forward(self, input_ids=None, inputs_embeds=None, **arguments):
        if inputs_embeds is not None:
            return self.module(inputs_embeds=2 * inputs_embeds, **arguments)
        return self.module(input_ids=input_ids, **arguments)


def test_a_model_that_agrees_in_no_way_is_refused_with_its_name_and_the_difference():
    module, tokenizer = tiny_language_model("llama")
    with pytest.raises(ModelError, match=r"Scaled cannot be explained.*separate: a difference of \d"):
        rationales.load(Scaled(module), tokenizer, **PROMPT)


def test_a_model_that_reads_no_token_ids_is_refused():
    module, tokenizer = tiny_language_model("llama")
    module.forward = lambda inputs_embeds, **arguments: None
    with pytest.raises(ModelError, match="LlamaForCausalLM cannot be run on token ids alone"):
        rationales.load(module, tokenizer, **PROMPT)
