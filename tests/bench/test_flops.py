"""The formulas agree with torch's counter, and the number of rows of a step with the rows that the network reads."""

from __future__ import annotations

import flops
import pytest
import torch
import transformers
from subjects import pictures, random_text, words
from timing import TimedDescent
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import rationales
from rationales.methods import build
from rationales.models.fast import packed


def product(_, left, right, **__):
    """Operations of `addmm_`, for which torch's counter has no formula."""
    return 2 * left[0] * left[1] * right[1]


def counted(module, **inputs):
    """Operations of a forward and a backward pass to the input, with frozen weights, counted by torch."""
    module.requires_grad_(False).eval()
    (input_tensor,) = inputs.values()
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: product}) as counter:
        module(**inputs).logits.sum().backward()
    assert input_tensor.grad is not None
    return counter.get_total_flops()


def test_a_bert():
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40, num_labels=5
    )
    module = transformers.BertForSequenceClassification(config)
    assert packed.set_packed(module)
    with sdpa_kernel(SDPBackend.MATH):  # other backends compute some products twice
        assert flops.text(config, 17) == counted(module, inputs_embeds=torch.randn(1, 17, 24, requires_grad=True))


def test_a_vit():
    config = transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, image_size=32, num_labels=5
    )
    module = transformers.ViTForImageClassification._from_config(config, attn_implementation="eager")
    assert flops.vit(config) == counted(module, pixel_values=torch.randn(1, 3, 32, 32, requires_grad=True))


@pytest.mark.parametrize("side", [32, 50])
def test_a_resnet(side):
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[2, 1, 2, 1], num_labels=5
    )
    module = transformers.ResNetForImageClassification(config)
    pixels = torch.randn(1, 3, side, side, requires_grad=True)
    assert flops.resnet(config, side) == counted(module, pixel_values=pixels)


def test_the_usual_sizes():
    """As published: 85 million weights in the layers of BERT-base, 4.1 and 17.5 thousand million products."""
    bert = flops.layers(transformers.BertConfig(), 1)
    assert bert == pytest.approx(2 * 2 * 85e6, rel=0.01)
    assert flops.resnet(transformers.ResNetConfig(num_labels=1000), 224) == pytest.approx(2 * 2 * 4.1e9, rel=0.01)
    assert flops.vit(transformers.ViTConfig(num_labels=1000)) == pytest.approx(2 * 2 * 17.5e9, rel=0.03)


def run(model, inputs, options):
    """The optimisation, and how many rows went through the network in passes with gradients."""
    method = build("marc", {"steps": 6, "stop": "steps", **options}, model.kind)
    module = model.networks[0].module if model.kind == "text" else model.module
    rows = []

    def record_rows(_, positional, keyword):
        if torch.is_grad_enabled():
            rows.append(len(keyword["input_ids"] if "input_ids" in keyword else positional[0]))

    batch = model.batch(model.encode([model.read(raw_input, None) for raw_input in inputs]))
    with model.frozen(), torch.no_grad():
        handle = module.register_forward_pre_hook(record_rows, with_kwargs=True)
        attribution = method.scores(batch, torch.zeros(batch.inputs, dtype=torch.long))
        handle.remove()
    return TimedDescent(method, batch, attribution.steps, 1.0), sum(rows)


@pytest.mark.parametrize("options", [{}, {"preset": "paper"}, {"level_weight": 0.5}])
def test_the_rows_of_texts(options):
    model = random_text("bert-tiny", torch.device("cpu"), segment=32, overlap=4)
    descent, rows = run(model, [words(8), words(60)], options)
    assert descent.batch.size[0] > 2, "one of the texts has segments"
    # on a CPU the gradients of a fast copy are first compared with those of the module
    copy_check = 2 * descent.batch.size[0]
    assert rows - flops.of_run(descent, lambda _: 1.0) in (0, copy_check)


@pytest.mark.parametrize("options", [{}, {"preset": "resnet"}])
def test_the_rows_of_pictures(options):
    module = torch.nn.Sequential(torch.nn.AvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(48, 3))

    def prepared(picture):
        return torch.tensor(list(picture.resize((16, 16)).tobytes())).view(16, 16, 3).permute(2, 0, 1) / 255

    model = rationales.load(module, prepared, baseline=["black", "white", "mean"], labels=["a", "b", "c"])
    descent, rows = run(model, pictures(2, 16), options)
    assert flops.of_run(descent, lambda _: 1.0) == rows
