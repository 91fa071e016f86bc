"""Which encoders can be measured, that they are left as they were, and what is said of those that cannot."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import transformers
from families import tiny

pytest.importorskip("PIL")

from methods.attention.encoders import TEXTS, encoder, text_batch, vision_model, vision_transformer
from models.audio.sounds import RATE, clip, line
from models.image.test_model import SIDE, detector, scene

import rationales
from rationales.errors import ModelError, OptionError
from rationales.methods import METHODS, build
from rationales.models.catalogue import load_with_transformers
from rationales.pipeline.explain import explain

INSIDE = [name for name, method in METHODS.items() if "attention" in method.needs]
READ_WEIGHTS = ["alti", "globenc", "decompx"]
AFTER_THE_NORM = ["alti", "globenc"]  # defined for layers that end in a layer norm


@pytest.mark.parametrize("name", INSIDE)
class TestRestoring:
    def test_logits_hooks_flags_and_attention_are_as_before(self, name):
        module, tokenizer = encoder()
        encoding = tokenizer(TEXTS[0], return_tensors="pt")
        with torch.no_grad():
            before = module(**encoding).logits
        module.train()
        settings = copy.deepcopy(module.config.to_dict())
        rationales.explain(rationales.load(module, tokenizer), TEXTS, method=name)
        assert all(submodule.training for submodule in module.modules())
        assert not any(submodule._forward_hooks or submodule._forward_pre_hooks for submodule in module.modules())
        assert module.config.to_dict() == settings
        assert module.config._attn_implementation == "sdpa"
        with torch.no_grad():
            assert torch.equal(module.eval()(**encoding).logits, before)

    def test_also_after_an_exception_in_the_middle_of_a_pass(self, name):
        module, tokenizer = encoder()
        batch = text_batch(module, tokenizer)
        handle = module.bert.encoder.layer[1].output.dense.register_forward_hook(_interrupt)
        with pytest.raises(KeyboardInterrupt):
            build(name).scores(batch, torch.tensor([0, 1]))
        handle.remove()
        assert not any(submodule._forward_hooks for submodule in module.modules())
        assert module.config._attn_implementation == "sdpa"

    def test_products_are_of_full_precision_whatever_is_set_and_the_setting_is_restored(self, name):
        """Weights of rounded products would not be the model's attention, and parts would not add up."""
        module, tokenizer = encoder()
        precisions: list[str] = []
        module.bert.encoder.layer[0].register_forward_hook(
            lambda *_: precisions.append(torch.get_float32_matmul_precision())
        )
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            build(name).scores(text_batch(module, tokenizer), torch.tensor([0, 1]))
            assert torch.get_float32_matmul_precision() == "high"
        finally:
            torch.set_float32_matmul_precision(before)
        assert precisions
        assert set(precisions) == {"highest"}

    def test_eager_attention_gives_the_same_scores_as_sdpa(self, name):
        module, tokenizer = encoder()
        fast = rationales.explain(rationales.load(module, tokenizer), TEXTS, method=name)
        module.set_attn_implementation("eager")
        eager = rationales.explain(rationales.load(module, tokenizer), TEXTS, method=name)
        for left, right in zip(fast, eager, strict=True):
            assert np.allclose(left.scores, right.scores, atol=1e-5)


@pytest.mark.parametrize("name", INSIDE)
class TestEncoders:
    def test_the_embedded_model_is_measured_as_transformers_own_class(self, name):
        light = rationales.load()
        heavy = rationales.load(load_with_transformers(), light.tokenizer)
        text = "The soup was cold, but I liked the warm and funny waiter."
        first, second = (rationales.explain(model, text, method=name).scores for model in (light, heavy))
        assert first.std() > 0
        assert np.allclose(first, second, atol=1e-4)

    def test_networks_that_are_explained_together_are_measured_one_by_one(self, name):
        (first, tokenizer), (second, _) = encoder(), encoder("electra", seed=1)
        together = rationales.load([first, second], tokenizer)
        batch = together.batch(together.encode([together.read(text, None) for text in TEXTS]))
        target = torch.tensor([1, 0])
        scores = build(name).scores(batch, target).scores
        for view, module in enumerate((first, second)):
            alone = build(name).scores(text_batch(module, tokenizer), target).scores
            assert torch.allclose(scores[batch.rows.view == view], alone, atol=1e-5)

    def test_a_model_in_half_precision(self, name):
        module, tokenizer = encoder()
        exact = rationales.explain(rationales.load(module, tokenizer), TEXTS[0], target=1, method=name).scores
        half = rationales.load(module.bfloat16(), tokenizer)
        rounded = rationales.explain(half, TEXTS[0], target=1, method=name).scores
        assert np.corrcoef(exact, rounded)[0, 1] > 0.95

    def test_patches_of_a_vision_transformer(self, name):
        model = vision_model(vision_transformer())
        if name in AFTER_THE_NORM:
            with pytest.raises(ModelError, match=rf"{name}.*begin with it; use decompx, chefer"):
                explain(model, scene(), method=name)
            return
        result = explain(model, scene(), method=name)
        patches = result.scores.reshape(4, SIDE // 4, 4, SIDE // 4)
        assert (patches == patches[:, :1, :, :1]).all()
        assert result.scores.std() > 0


@pytest.mark.parametrize("name", INSIDE)
class TestRefusals:
    @pytest.mark.parametrize("family", ["gpt2", "albert", "mpnet", "modernbert"])
    def test_other_architectures(self, name, family):
        module, tokenizer = tiny(family)
        with pytest.raises(ModelError, match=rf"{name}.*{type(module).__name__}.*use integrated-gradients"):
            rationales.explain(rationales.load(module, tokenizer), TEXTS[1], method=name)

    def test_convolutional_networks(self, name):
        with pytest.raises(ModelError, match=rf"{name}.*convolutional.*use integrated-gradients"):
            explain(detector(), scene(), method=name)

    def test_sounds(self, name):
        with pytest.raises(OptionError, match=rf"{name}.*sounds have neither; use integrated-gradients"):
            explain(line(), (clip(0.3, 0.6), RATE), method=name)

    def test_an_attention_of_ones_own(self, name):
        from transformers import AttentionInterface
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        def local(module, query, key, value, attention_mask, **options):
            near = (torch.arange(key.shape[2])[:, None] - torch.arange(key.shape[2])).abs() < 3
            return sdpa_attention_forward(module, query, key, value, near[None, None], **options)

        AttentionInterface.register("local-of-a-test", local)
        module, tokenizer = encoder()
        module.config._attn_implementation = "local-of-a-test"
        with pytest.raises(ModelError, match=rf"{name}.*something else.*sliding window"):
            rationales.explain(rationales.load(module, tokenizer), TEXTS[0], method=name)

    def test_layers_in_chunks(self, name):
        module, tokenizer = encoder()
        batch = text_batch(module, tokenizer, [TEXTS[0], TEXTS[0]])
        for layer in module.bert.encoder.layer:
            layer.chunk_size_feed_forward = 1
        with pytest.raises(ModelError, match=rf"{name}.*ran twice.*chunk_size_feed_forward"):
            build(name).scores(batch, torch.tensor([0, 1]))

    @pytest.mark.parametrize(("layer", "reason"), [("Wrapped", "not a plain layer"), ("Int8Linear", "int8 of")])
    def test_linear_layers_of_another_kind_where_weights_are_read(self, name, layer, reason):
        """Attention and its gradients are read off what goes through the layers, whatever these are."""
        module, tokenizer = encoder()
        attention = module.bert.encoder.layer[0].attention.self
        attention.value = {"Wrapped": Wrapped, "Int8Linear": Int8Linear}[layer](attention.value)
        model = rationales.load(module, tokenizer)
        if name in READ_WEIGHTS:
            with pytest.raises(ModelError, match=rf"{name}.*value.*{layer}.*{reason}.*full precision"):
                rationales.explain(model, TEXTS[0], method=name)
            return
        scores = rationales.explain(model, TEXTS[0], target=1, method=name).scores
        plain = rationales.explain(rationales.load(*encoder()), TEXTS[0], target=1, method=name).scores
        assert np.allclose(scores, plain, atol=0.02 * np.abs(plain).max())

    def test_a_hook_that_changes_what_is_taken_apart(self, name):
        module, tokenizer = encoder()
        layer = module.bert.encoder.layer[0]
        model = rationales.load(module, tokenizer)
        for changed, methods in ((layer.attention.output.dense, READ_WEIGHTS), (layer.output, ["decompx"])):
            handle = changed.register_forward_hook(lambda _module, _arguments, output: 1.5 * output)
            if name in methods:
                with pytest.raises(ModelError, match=rf"{name}.*the sum is not .*a hook"):
                    rationales.explain(model, TEXTS[0], method=name)
            else:
                assert np.isfinite(rationales.explain(model, TEXTS[0], method=name).scores).all()
            handle.remove()

    def test_a_subclass_that_reads_all_tokens(self, name):
        module, tokenizer = encoder("roberta")
        module.classifier.__class__ = MeanHead
        with pytest.raises(ModelError, match=rf"{name} is about the state of the first token.*reads others, too"):
            rationales.explain(rationales.load(module, tokenizer), TEXTS[0], method=name)


@pytest.mark.parametrize("name", INSIDE)
class TestSubclasses:
    def test_a_subclass_of_a_known_class_is_measured_like_it(self, name):
        module, tokenizer = encoder()
        expected = rationales.explain(rationales.load(module, tokenizer), TEXTS[0], target=1, method=name).scores
        module.__class__ = type("ReviewClassifier", (type(module),), {})
        actual = rationales.explain(rationales.load(module, tokenizer), TEXTS[0], target=1, method=name).scores
        assert np.array_equal(actual, expected)

    def test_a_head_of_its_own_matters_only_to_decompx(self, name):
        module, tokenizer = encoder()
        module.classifier = torch.nn.Sequential(module.classifier, torch.nn.Linear(3, 3), torch.nn.Tanh())
        model = rationales.load(module, tokenizer)
        if name == "decompx":
            with pytest.raises(ModelError, match="decompx reads weights, and classifier is a Sequential"):
                rationales.explain(model, TEXTS[0], method=name)
        else:
            assert rationales.explain(model, TEXTS[0], method=name).scores.std() > 0

    def test_logits_that_the_head_does_not_make_are_not_taken_apart(self, name):
        module, tokenizer = encoder()
        module.__class__ = type("Tempered", (type(module),), {"forward": _tempered})
        model = rationales.load(module, tokenizer)
        if name == "decompx":
            with pytest.raises(ModelError, match=r"decompx.*the sum is not the logits"):
                rationales.explain(model, TEXTS[0], method=name)
        else:
            assert rationales.explain(model, TEXTS[0], method=name).scores.std() > 0


def test_a_layer_that_does_not_exist_is_named():
    model = rationales.load(*encoder())
    with pytest.raises(OptionError, match="raw-attention: the encoder has 2 layers, 0 to 1; there is no 2"):
        rationales.explain(model, TEXTS[0], method="raw-attention", options={"layer": 2})


class Wrapped(torch.nn.Module):
    """A linear layer inside another, as adapters and quantisation have it."""

    def __init__(self, linear):
        super().__init__()
        self.linear = linear

    def forward(self, states):
        return self.linear(states)


class Int8Linear(torch.nn.Linear):
    """A linear layer with weights of 8 bits, as quantisation libraries have it."""

    def __init__(self, linear):
        super().__init__(linear.in_features, linear.out_features)
        self.step = linear.weight.detach().abs().amax(1, keepdim=True) / 127
        self.bias = linear.bias
        self.weight = torch.nn.Parameter((linear.weight.detach() / self.step).round().to(torch.int8), False)

    def forward(self, states):
        return torch.nn.functional.linear(states, self.weight * self.step, self.bias)


class MeanHead(transformers.models.roberta.modeling_roberta.RobertaClassificationHead):
    """A classifier of the mean over all tokens."""

    def forward(self, features, **kwargs):
        return super().forward(features.mean(1, keepdim=True), **kwargs)


def _tempered(self, *arguments, **keywords):
    """Logits of a classifier, divided by a temperature."""
    output = transformers.BertForSequenceClassification.forward(self, *arguments, **keywords)
    output.logits = output.logits / 2
    return output


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
