"""Makes a causal language model explainable: from a module, a name, an id, a folder, an adapter or a GGUF file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rationales.errors import ModelError, OptionError
from rationales.models.catalogue import LANGUAGE_MODELS
from rationales.models.classes import Head
from rationales.models.pretrained import check_folder, device_of, hub_reachable, load_error
from rationales.models.prompt.baselines import choose_baseline
from rationales.models.prompt.encoding import PromptEncoder, RowSettings
from rationales.models.prompt.generation import padding_id
from rationales.models.prompt.gguf_file import first_line, open_gguf, require
from rationales.models.prompt.labels import check_label_ids, check_labels
from rationales.models.prompt.model import PromptModel
from rationales.models.prompt.network import PromptNetwork
from rationales.models.prompt.template import TEXT, PromptTemplate, as_template
from rationales.models.quiet import quiet_transformers
from rationales.models.recognition import ADAPTER_FILE, GGUF
from rationales.models.text import baselines
from rationales.models.text.batch import TextClassifier
from rationales.models.text.model import token_limit

PROMPT_FILE = "prompt.json"  # labels and template that lie beside a model's weights
OTHER = "other"  # the second class where there is a single label
DEVICE_MAP = "auto"  # device that spreads a model over all devices


def load_prompt(
    source: Any,
    tokenizer: Any = None,
    *,
    device: str | torch.device | None = None,
    unit: str = "word",
    baseline: str | Tensor | None = None,
    segment: int | None = None,
    overlap: int = 100,
    labels: Sequence[str] | None = None,
    template: Any = None,
    chat: bool = False,
    separator: str | None = None,
    continuations: Sequence[str] | None = None,
    explain_prompt: bool = False,
    length_normalised: bool = False,
    calibrated: bool = False,
    trust_remote_code: bool = False,
) -> PromptModel:
    """Make a causal language model explainable; the options are those of `rationales.load`."""
    if unit not in ("word", "token", "sentence"):
        raise OptionError(f"units are word, token or sentence, not {unit!r}")
    if continuations is not None:
        if labels is not None or template is not None:
            raise OptionError("continuations are explained for a prompt as it is; leave labels and template out")
        labels, template = continuations, TEXT
    saved = _saved_prompt(source) if labels is None or template is None else {}
    labels = saved.get("labels") if labels is None else labels
    template = saved.get("template") if template is None else template
    _check_prompt(source, labels, template)
    prompt_template = as_template(template, chat, separator)
    words = check_labels(labels, "labels" if continuations is None else "continuations")
    module, loaded_tokenizer, name = _open(source, tokenizer, device, trust_remote_code)
    return prompt_model(
        module,
        loaded_tokenizer,
        name=name,
        labels=words,
        template=prompt_template,
        unit=unit,
        baseline=baseline,
        limit=segment,
        overlap=overlap,
        explain_prompt=explain_prompt,
        continues=continuations is not None,
        length_normalised=length_normalised,
        calibrated=calibrated,
    )


def prompt_model(
    module: nn.Module,
    tokenizer: Any,
    *,
    name: str,
    labels: Sequence[str],
    template: PromptTemplate,
    unit: str = "word",
    baseline: str | Tensor | None = None,
    limit: int | None = None,
    overlap: int = 100,
    explain_prompt: bool = False,
    continues: bool = False,
    length_normalised: bool = False,
    calibrated: bool = False,
) -> PromptModel:
    """The PromptModel of a causal language model and its tokenizer.

    `continues`: the labels are continuations of a prompt, which is never divided.
    """
    rendered = template.render(tokenizer)
    encoder = PromptEncoder.of(tokenizer, rendered, shared=not explain_prompt)
    spellings = [
        [encoder.label_ids(label, separator) for label in labels] for separator in range(len(rendered.separators))
    ]
    for label_ids in spellings:
        check_label_ids(labels, label_ids, "continuations" if continues else "labels")
    label_tokens = max(len(ids) for label_ids in spellings for ids in label_ids) - 1
    context = token_limit(module, tokenizer)
    if limit is not None and not 8 <= limit <= context:
        raise OptionError(f"a segment must have 8 to {context} tokens, the prompt included, not {limit}")
    context = limit or context
    rows = RowSettings(
        unit=unit,  # type: ignore[arg-type]  # checked by the caller
        limit=context - len(encoder.prefix_ids) - label_tokens,
        overlap=overlap,
        context=context,
        label_tokens=label_tokens,
        segments=not continues and not explain_prompt,
    )
    before, after = _fixed_ids(encoder)
    rows.check_room(len(before) + len(after), 2 if template.has_pair else 1, encoder)
    empty_ids = None
    if calibrated:
        empty_ids = encoder.tokens([rendered.fill("", "")[0]])[0].ids
        if not empty_ids:
            raise OptionError("calibration compares with an empty text, and this template has no words around the text")
    names = tuple(labels) if len(labels) > 1 else (labels[0], OTHER)
    with _evaluating(module):
        network = PromptNetwork(
            module,
            names,
            spellings,
            encoder.prefix_ids,
            length_normalised=length_normalised,
            empty_ids=empty_ids,
            continues=continues,
            digest=repr((rendered, names, length_normalised, calibrated, explain_prompt)),
        )
        network.prepare()
        choice = None
        if baseline is None:
            choice = choose_baseline(network, tokenizer, before, after, rows.limit)
    baseline_name = choice.name if choice is not None else baselines.choose(baseline, tokenizer)
    vector = baselines.vector(
        baseline if isinstance(baseline, Tensor) else baseline_name, tokenizer, network.get_input_embeddings()
    )
    classifier = TextClassifier(network, network.get_input_embeddings(), vector, {}, takes_types=len(spellings) > 1)
    return PromptModel(
        networks=[classifier],
        tokenizer=tokenizer,
        head=Head.SOFTMAX,
        labels=names,
        name=name,
        unit=rows.unit,
        baseline=baseline_name,
        limit=rows.limit,
        overlap=overlap,
        filler=padding_id(tokenizer),
        template=template,
        encoder=encoder,
        settings=rows,
        explain_prompt=explain_prompt,
        choice=choice,
    )


def _check_prompt(source: Any, labels: Any, template: Any) -> None:
    """Raise an OptionError that names what is missing."""
    missing = [name for name, value in (("labels", labels), ("template", template)) if value is None]
    if missing:
        title = source if isinstance(source, (str, os.PathLike)) else type(source).__name__
        raise OptionError(
            f"{title} is a language model, which classifies by a prompt: {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing; give labels=['positive', 'negative'] and "
            "template='Review: {text}\\nSentiment:' (--labels, --template), with chat=True for a chat model, "
            "or continuations=['cats', 'dogs'] (--continuations) for the next words of a prompt"
        )


def _open(source: Any, tokenizer: Any, device: Any, remote: bool) -> tuple[nn.Module, Any, str]:
    """The module, its tokenizer and a name for it."""
    if isinstance(source, nn.Module):
        if tokenizer is None:
            raise OptionError("a module needs its tokenizer: rationales.load(module, tokenizer, labels=…, template=…)")
        if device == DEVICE_MAP:
            raise _not_spread("a module lies on its devices already; load it with device_map='auto' of transformers")
        name = getattr(source, "name_or_path", "") or type(source).__name__
        return (source if device is None else source.to(device_of(device))), tokenizer, name
    where, spread = str(source), device == DEVICE_MAP
    if where in LANGUAGE_MODELS:
        if spread:
            raise _not_spread(f"{where} is small and is loaded whole")
        module, loaded = LANGUAGE_MODELS[where].open("cpu")
    elif where.endswith(GGUF):
        if spread:
            raise _not_spread("the weights of a GGUF file are converted as a whole")
        module, loaded = open_gguf(Path(where))
    elif (Path(where) / ADAPTER_FILE).is_file():
        module, loaded = open_adapter(Path(where), tokenizer, remote, DEVICE_MAP if spread else None)
    else:
        module, loaded = _pretrained(where, tokenizer, remote, spread=spread)
    if device is not None and not spread:
        module = module.to(device_of(device))
    return module, tokenizer or loaded, where


def _not_spread(reason: str) -> OptionError:
    return OptionError(f"device 'auto' spreads a model over devices, but {reason}; or name one device, such as cuda")


def open_adapter(folder: Path, tokenizer: Any, remote: bool, device: str | None = None) -> tuple[nn.Module, Any]:
    """A language model with the adapter in this folder; the model it changes is named in its configuration.

    `device`: None or "auto".
    """
    require("peft", "adapters")
    import peft

    try:
        base_name = str(json.loads((folder / ADAPTER_FILE).read_text(encoding="utf-8"))["base_model_name_or_path"])
    except (ValueError, KeyError) as error:
        raise ModelError(
            f"{folder / ADAPTER_FILE} does not name the model it changes (base_model_name_or_path)"
        ) from error
    if not any(folder.glob("*.safetensors")):
        raise ModelError(f"{folder} holds no adapter_model.safetensors; save it with model.save_pretrained(folder)")
    base, base_tokenizer, _ = _open(base_name, tokenizer, device, remote)
    try:
        with quiet_transformers():
            module = peft.PeftModel.from_pretrained(base, str(folder))
            if (folder / "tokenizer_config.json").is_file() and tokenizer is None:
                import transformers

                base_tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        raise ModelError(f"cannot load the adapter {folder}: {first_line(error)}") from error
    return module.eval(), base_tokenizer


def _pretrained(where: str, tokenizer: Any, remote: bool, *, spread: bool) -> tuple[nn.Module, Any]:
    """The causal language model at a hub id or folder."""
    import transformers

    folder = Path(where)
    if folder.is_dir():
        check_folder(folder)
    options: dict[str, Any] = {"trust_remote_code": remote, "local_files_only": folder.is_dir() or not hub_reachable()}
    if spread:
        require("accelerate", "device 'auto'")
    try:
        with quiet_transformers():
            module: Any = transformers.AutoModelForCausalLM.from_pretrained(
                where, use_safetensors=True, **options, **({"device_map": DEVICE_MAP} if spread else {})
            )
            loaded = tokenizer or transformers.AutoTokenizer.from_pretrained(where, **options)
    except Exception as error:
        raise ModelError(load_error(where, error, remote)) from error
    return module.eval(), loaded


def _saved_prompt(source: Any) -> dict[str, Any]:
    """The labels and the template that lie beside a model's weights in prompt.json, as far as they do."""
    if not isinstance(source, (str, os.PathLike)):
        return {}
    folder = Path(LANGUAGE_MODELS[str(source)].where() or "") if str(source) in LANGUAGE_MODELS else Path(source)
    path = folder / PROMPT_FILE
    if not path.is_file():
        return {}
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        template = PromptTemplate.from_dict(saved) if "template" in saved else None
        return {"labels": saved.get("labels"), "template": template}
    except (ValueError, TypeError, AttributeError, OptionError) as error:
        raise ModelError(f"{path} is no JSON object with labels and template: {error}") from error


def _fixed_ids(encoder: PromptEncoder) -> tuple[list[int], list[int]]:
    """The tokens behind the prefix and before the text, and those after it, of a prompt with a one-letter text."""
    prompt, extents = encoder.template.fill("a", "a")
    tokens = encoder.tokens([prompt])[0]
    start, end = extents[0][0], extents[-1][1]
    before = [token for token, (_, last) in zip(tokens.ids, tokens.extents, strict=True) if last <= start]
    after = [token for token, (first, _) in zip(tokens.ids, tokens.extents, strict=True) if first >= end]
    return before, after


def _evaluating(module: nn.Module) -> Any:
    from rationales.models.batch.execution import frozen

    return frozen(module)
