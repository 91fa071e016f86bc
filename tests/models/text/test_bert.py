"""The embedded model's own BERT against Hugging Face's: weights, logits and gradients."""

from importlib.resources import files

import pytest
import torch
import transformers

import rationales
from rationales.models.catalogue import CATALOGUE, EMBEDDED
from rationales.models.text.bert import load_bert
from rationales.models.text.fingerprint import fingerprint
from rationales.models.text.tokens import TextInput

FOLDER = files(rationales) / "models" / "embedded"
TEXTS = ["Short.", "The acting is fine, but the plot is a mess, and nobody seems to care."]


@pytest.fixture(scope="module")
def ours():
    return load_bert(FOLDER)


@pytest.fixture(scope="module")
def theirs():
    loader = transformers.AutoModelForSequenceClassification
    return loader.from_pretrained(FOLDER, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.AutoTokenizer.from_pretrained(FOLDER)


def test_weights_have_the_same_names_order_and_values(ours, theirs):
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in ours.state_dict().items())


@pytest.mark.parametrize("pairs", [False, True], ids=["texts", "pairs"])
@pytest.mark.parametrize("count", [1, 2], ids=["full rows", "filled-up rows"])
def test_logits_and_gradients_are_the_same(ours, theirs, tokenizer, count, pairs):
    encoding = tokenizer(TEXTS[:count], TEXTS[:count] if pairs else None, padding=True, return_tensors="pt")
    answers = []
    for module in (ours, theirs):
        weight = module.get_input_embeddings().weight
        logits = module(**encoding).logits
        answers.append((logits, *torch.autograd.grad(logits[:, 1].sum(), weight)))
    for mine, expected in zip(*answers, strict=True):
        torch.testing.assert_close(mine, expected, atol=2e-6, rtol=1e-5)


def test_it_is_the_same_classifier_to_a_trained_masker(theirs, tokenizer):
    light, full = rationales.load(), rationales.load(theirs, tokenizer)
    prints = [fingerprint(model.batch(model.encode([TextInput(TEXTS[1])]))) for model in (light, full)]
    assert prints[0] == prints[1]


def test_explanations_are_the_same(theirs, tokenizer):
    results = [rationales.explain(model, TEXTS[1]) for model in (rationales.load(), rationales.load(theirs, tokenizer))]
    torch.testing.assert_close(*(torch.from_numpy(result.scores) for result in results), atol=1e-3, rtol=0)


def test_an_accelerator_gets_the_library_s(theirs):
    module, _ = CATALOGUE[EMBEDDED].open("cuda")
    assert type(module) is type(theirs)
