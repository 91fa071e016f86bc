"""Loads image-text classifiers: by a Hugging Face id or folder, or a module with a tokenizer and an image processor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.models.classes import Head, class_names
from rationales.models.image.loading import (
    callable_reading,
    is_processor,
    named_baselines,
    processor_reading,
)
from rationales.models.image.model import ImageModel
from rationales.models.image.reading import Fit, ImageInput, fit_image
from rationales.models.multimodal.architectures import ARCHITECTURES, PairArchitecture
from rationales.models.multimodal.baselines import part_baselines
from rationales.models.multimodal.model import ImageTextModel
from rationales.models.multimodal.network import ImageTextNetwork
from rationales.models.multimodal.pair_network import is_pair_network, load_pair_network, picture_reader
from rationales.models.pretrained import device_of, load_architecture
from rationales.models.text import baselines as text_baselines
from rationales.models.text.model import padding_token, token_limit


def load_image_text(
    source: Any,
    preprocessor: Any = None,
    *,
    device: str | torch.device | None = None,
    baseline: Any = None,
    labels: Sequence[str] | None = None,
    trust_remote_code: bool = False,
) -> ImageTextModel:
    """Make an image-text classifier explainable; the options are those of `rationales.load`."""
    if isinstance(source, nn.Module):
        module, name = source, getattr(source, "name_or_path", "") or type(source).__name__
    elif is_pair_network(Path(str(source))):
        module, tokenizer = load_pair_network(Path(str(source)))
        preprocessor = preprocessor or (tokenizer, picture_reader(module.config.image_size))
        name = str(source)
    else:
        module, preprocessor = load_architecture(str(source), preprocessor, trust_remote_code)
        name = str(source)
    tokenizer, processor = split_preprocessor(preprocessor)
    if device is not None:
        module.to(device_of(device))
    known = ARCHITECTURES.get(type(module).__name__) if type(module).__module__.startswith("transformers.") else None
    _check_one_image(module)
    class_labels = tuple((known and known.labels) or class_names(module, labels))
    classifier = known.wrap(module, tokenizer) if known else module
    requested = part_baselines(baseline)
    pictures = _pictures(classifier, processor, class_labels, name)
    pictures.baselines, pictures.custom_baselines = named_baselines(pictures, requested.image)
    word_baseline = text_baselines.choose(requested.text, tokenizer)
    network = _network(classifier, tokenizer, requested.text if isinstance(requested.text, Tensor) else word_baseline)
    head = _head(module, known, class_labels, labels)
    if head is Head.SIGMOID and len(class_labels) == 1:
        class_labels = (f"not {class_labels[0]}", class_labels[0])
    return ImageTextModel(
        network=network,
        pictures=pictures,
        tokenizer=tokenizer,
        head=head,
        labels=class_labels,
        name=name,
        word_baseline=word_baseline,
        limit=token_limit(module, tokenizer),
        filler=padding_token(module, tokenizer),
    )


def split_preprocessor(preprocessor: Any) -> tuple[Any, Any]:
    """Tokenizer and image processor from a tuple of both, in any order, or from a processor that holds both."""
    if isinstance(preprocessor, (tuple, list)) and len(preprocessor) == 2:
        first, second = preprocessor
        if hasattr(second, "get_vocab"):
            first, second = second, first
        if hasattr(first, "get_vocab") and callable(first) and callable(second):
            return first, second
    tokenizer, processor = getattr(preprocessor, "tokenizer", None), getattr(preprocessor, "image_processor", None)
    if tokenizer is not None and processor is not None:
        return tokenizer, processor
    raise OptionError(
        "an image-text model needs a tokenizer and an image processor: rationales.load(module, (tokenizer, processor))"
        ", or its Hugging Face processor, which holds both"
    )


def is_image_text_preprocessor(preprocessor: Any) -> bool:
    """Whether this is a tuple of a tokenizer and an image processor, or a processor that holds both."""
    if isinstance(preprocessor, (tuple, list)):
        return len(preprocessor) == 2 and any(hasattr(component, "get_vocab") for component in preprocessor)
    return hasattr(preprocessor, "tokenizer") and hasattr(preprocessor, "image_processor")


def _pictures(module: nn.Module, processor: Any, labels: Sequence[str], name: str) -> ImageModel:
    """The preprocessing, fit and baselines of the images."""
    if not is_processor(processor):
        preprocess, fit = callable_reading(processor)
        return ImageModel(module, preprocess, fit, Head.SOFTMAX, tuple(labels), name)
    colour = tuple(float(value) for value in getattr(processor, "image_mean", None) or (0.485, 0.456, 0.406))
    if _has_free_size(processor):
        preprocess, fit = _squashed(module, processor)
    else:
        preprocess, fit = processor_reading(processor)
    return ImageModel(module, preprocess, fit, Head.SOFTMAX, tuple(labels), name, mean_colour=(*colour[:3],))  # type: ignore[arg-type]  # three colours


def _has_free_size(processor: Any) -> bool:
    """Whether the processor keeps the shape of an image, as that of ViLT does."""
    size = getattr(processor, "size", None)
    return size is not None and "shortest_edge" in dict(size) and not getattr(processor, "do_center_crop", False)


def _squashed(module: nn.Module, processor: Any) -> tuple[Callable[[ImageInput], Tensor], Fit]:
    """Images squashed into the square that the model was configured for, then normalised as the processor does it."""
    side = getattr(getattr(module, "config", None), "image_size", None) or dict(processor.size)["shortest_edge"]
    mean, std = (torch.tensor(values)[:, None, None] for values in (processor.image_mean, processor.image_std))
    fit = Fit("squash", int(side), int(side))

    def preprocess(image: ImageInput) -> Tensor:
        return (fit_image(image, fit)[0] - mean) / std

    return preprocess, fit


def _network(module: nn.Module, tokenizer: Any, baseline: str | Tensor) -> ImageTextNetwork:
    find = getattr(module, "get_input_embeddings", None)
    try:
        embedding = find() if find is not None else None
    except NotImplementedError:
        embedding = None
    if not isinstance(embedding, nn.Module):
        raise ModelError(
            f"{type(module).__name__} does not say where its word embeddings are; give it a get_input_embeddings()"
        )
    signature = inspect.signature(module.forward).parameters
    missing = [name for name in ("pixel_values", "input_ids", "attention_mask") if name not in signature]
    if missing and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.values()):
        raise ModelError(
            f"{type(module).__name__} takes no {missing[0]}; an image-text module is called as "
            "module(pixel_values=…, input_ids=…, attention_mask=…) and returns logits"
        )
    arguments = {"use_cache": False} if "use_cache" in signature else {}
    vector = text_baselines.vector(baseline, tokenizer, embedding)
    return ImageTextNetwork(module, embedding, vector, arguments, "token_type_ids" in signature)


def _head(
    module: nn.Module, known: PairArchitecture | None, names: Sequence[str], labels: Sequence[str] | None
) -> Head:
    if known is not None:
        return known.head
    config = getattr(module, "config", None)
    if getattr(config, "problem_type", None) == "multi_label_classification":
        return Head.MULTI_LABEL
    return Head.SIGMOID if len(names) == 1 and labels is None else Head.SOFTMAX


def _check_one_image(module: nn.Module) -> None:
    count = getattr(getattr(module, "config", None), "num_images", 1)
    if type(module).__name__ == "ViltForImagesAndTextClassification" and count != 1:
        raise ModelError(f"this model reads {count} images with every text; only models of one image are supported")
