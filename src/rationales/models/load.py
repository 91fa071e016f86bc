"""`load` makes a classifier explainable; its kind is recognised by what is given."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from rationales.errors import OptionError
from rationales.models.function.sources import is_text_function, unwrapped
from rationales.models.kinds import LoadRequest, recognised_kind
from rationales.models.model import Model

if TYPE_CHECKING:
    from rationales.models.audio.model import AudioModel
    from rationales.models.function.model import FunctionModel
    from rationales.models.image.model import ImageModel
    from rationales.models.multimodal.model import ImageTextModel
    from rationales.models.text.model import TextModel


def load(
    source: Any = None,
    tokenizer: Any = None,
    *,
    device: str | torch.device | None = None,
    unit: str = "word",
    baseline: Any = None,
    segment: int | None = None,
    overlap: int = 100,
    labels: Sequence[str] | None = None,
    sample_rate: int | None = None,
    frame: float | None = None,
    fit: str | None = None,
    template: Any = None,
    chat: bool = False,
    separator: str | None = None,
    continuations: Sequence[str] | None = None,
    explain_prompt: bool = False,
    length_normalised: bool = False,
    calibrated: bool = False,
    trust_remote_code: bool = False,
) -> TextModel | ImageModel | ImageTextModel | AudioModel | FunctionModel:
    """Make a classifier explainable, or a language model that classifies by a prompt.

    `source`: nothing (the embedded sentiment model), a name of `rationales models`, a Hugging Face id or a folder
    (its configuration tells whether it classifies texts, images, sounds or images with a text), a module (then also
    give its tokenizer, image processor or feature extractor, or a callable that turns a PIL image into a tensor), a
    list of text models that share one tokenizer and are explained together, a `transformers.pipeline` for text, image
    or audio classification, or a function of texts.

    A function of texts is a callable from a list of texts to probabilities, (texts, classes) or (texts,), or anything
    with `predict_proba`, such as a scikit-learn pipeline; a classifier of vectors is given with what makes the vectors,
    `load(classifier, encoder)`, for instance a sentence-transformers model. It has no gradients, so methods that need
    none explain it (loo-empty, occlusion, lime, kernel-shap, shapley-sampling); `baseline` is "delete" or a word, and
    `labels` names the classes where the function does not.

    Texts: `unit` is what is kept or replaced: word, token or sentence; `baseline` what a replaced unit becomes: pad,
    mask, unk, zero, mean, a word of the vocabulary, or a vector, by default the first of these that the tokenizer has;
    `segment` is the tokens per segment, by default all that the model takes, and `overlap` the tokens segments share.

    Language models: a causal language model (a module, an id, a folder, a peft adapter's folder, a GGUF file, or
    "smollm2") classifies by `template`, a text with `{text}` where the input goes, a file that holds one, or a
    `PromptTemplate`, and `labels`, the words that it chooses from behind the prompt; their likelihoods, normalised, are
    the probabilities. `chat`: the template is the user's turn of a chat. `length_normalised`: likelihoods per token.
    `calibrated`: relative to those of an empty text. `separator`: what stands between a prompt and a label, by default
    a space where the prompt ends in a space, a letter, a digit or a mark such as a colon, else nothing.
    `explain_prompt`: units are the words of the whole prompt. `continuations`, in place of labels and template: inputs
    are prompts, and explained is why one of these words follows and not another. `baseline` is by default the embedding
    that tells the model least; `device="auto"` spreads a model over all devices.

    Images: `baseline` is one or several of black, white, mean, noise, blur-N and images of yours (a path, a PIL image,
    an array), by default those that tell the model least; `fit` is how an image that is not square is fitted into the
    model: crop, pad or squash, by default as its preprocessing does it; `labels` names the classes of a module that
    does not name them itself.

    Images with a text: a module `module(pixel_values=…, input_ids=…, attention_mask=…)` that returns logits goes with a
    tuple (tokenizer, image processor), or with its Hugging Face processor; CLIP, BLIP (matching) and ViLT (questions,
    classification) are known. `baseline` is {"text": "mask", "image": "black"}, or "mask; black".

    Sounds: `sample_rate` is what a module expects, for inputs (S, samples) or, with a callable that turns samples into
    (frames, bins), (S, frames, bins); `frame` the seconds of a waveform that are kept or replaced as one;
    `baseline` is one or several of silence, noise and blur-N; `segment` is the seconds per segment.
    """
    network, preprocessor = unwrapped(source, tokenizer)
    request = LoadRequest(
        source=network,
        preprocessor=preprocessor,
        device=device,
        unit=unit,
        baseline=baseline,
        segment=segment,
        overlap=overlap,
        labels=labels,
        sample_rate=sample_rate,
        frame=frame,
        fit=fit,
        trust_remote_code=trust_remote_code,
        template=template,
        chat=chat,
        separator=separator,
        continuations=continuations,
        explain_prompt=explain_prompt,
        length_normalised=length_normalised,
        calibrated=calibrated,
    )
    model: TextModel | ImageModel | ImageTextModel | AudioModel | FunctionModel = recognised_kind(request).load(request)
    return model


def as_model(source: Any) -> Model:
    """The model itself, or the model loaded from a name, a folder or a tuple (module, tokenizer)."""
    if hasattr(source, "encode") and hasattr(source, "batch") and hasattr(source, "labels"):
        model: Model = source
        return model
    if isinstance(source, (str, os.PathLike)):
        return load(source)
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[0], nn.Module):
        return load(*source)
    if is_text_function(source) or unwrapped(source, None)[1] is not None:
        return load(source)
    if isinstance(source, nn.Module):
        name = type(source).__name__
        raise OptionError(
            f"{name} is a module without its tokenizer or processor; call model = rationales.load(module, tokenizer) "
            "first and give that model, or give the tuple (module, tokenizer)"
        )
    raise OptionError(
        f"the model is what rationales.load(…) returns, or a model's name, its folder or a tuple (module, tokenizer); "
        f"not {type(source).__name__}; call model = rationales.load(…) first"
    )
