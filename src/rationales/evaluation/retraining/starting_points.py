"""The weights that a classifier is retrained from, and the tokenizer that goes with them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rationales.errors import ModelError, OptionError
from rationales.evaluation.retraining.settings import OWN_ENCODER, SCRATCH, RetrainingSettings
from rationales.evaluation.sanity.weight_groups import randomise, weight_groups
from rationales.models.classes import Head
from rationales.models.function.model import FunctionModel
from rationales.models.model import Model
from rationales.models.pretrained import check_folder, hub_reachable, load_error
from rationales.models.prompt.model import PromptModel
from rationales.models.quiet import quiet_transformers
from rationales.models.text.model import TextModel


@dataclass(frozen=True, eq=False)
class StartingPoint:
    """A classifier before training; each seed gets a copy with fresh weights of its own."""

    module: nn.Module
    tokenizer: Any
    head: Head
    padding: int  # token id
    limit: int  # tokens
    takes_types: bool
    scratch: bool  # whether all weights are fresh, not only the head
    remark: str

    def copy(self, seed: int) -> nn.Module:
        """A trainable copy with the head, or all weights, drawn from this seed."""
        module = copy.deepcopy(self.module)
        groups = weight_groups(module)
        randomise(module, groups if self.scratch else groups[:1], seed, "roar")
        return module.requires_grad_(True)


def starting_point(model: Model, settings: RetrainingSettings) -> StartingPoint:
    """What the settings name: the model's own encoder, nothing, or a pretrained encoder."""
    if not isinstance(model, TextModel | FunctionModel):
        raise OptionError(f"ROAR is for models of texts alone, and {model.name} reads other inputs")
    if isinstance(model, TextModel) and len(model.networks) != 1:
        raise OptionError("ROAR retrains one classifier, not several that are explained together")
    if model.head is Head.MULTI_LABEL:
        raise OptionError(f"ROAR needs one class for each text, and {model.name} gives every class on its own")
    if settings.start not in (OWN_ENCODER, SCRATCH):
        return _pretrained(model, settings)
    if isinstance(model, PromptModel | FunctionModel):
        kind = "a language model with a prompt" if isinstance(model, PromptModel) else "a function without weights"
        raise OptionError(
            f"ROAR retrains a classifier, and {model.name} is {kind}; name an encoder that is retrained in its place: "
            "start=FOLDER (--study start=FOLDER)"
        )
    limit = min(settings.max_length, model.limit)
    network = model.networks[0]
    weight_groups(network.module)  # an error for a module without a head
    module = copy.deepcopy(network.module).float()
    config = getattr(module, "config", None)
    if config is not None and getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = model.filler  # decoders find the last token by it
    remarks = {
        OWN_ENCODER: "Retrained from the model's own encoder with a new head: where the model was trained on these "
        "texts, its encoder has seen the removed words, and accuracies are too high for all rows alike. Set start to a "
        "pretrained encoder, as in the paper, to avoid it.",
        SCRATCH: "Retrained from scratch: all weights were drawn anew.",
    }
    scratch = settings.start == SCRATCH
    return StartingPoint(
        module, model.tokenizer, model.head, model.filler, limit, network.takes_types, scratch, remarks[settings.start]
    )


def _pretrained(model: TextModel | FunctionModel, settings: RetrainingSettings) -> StartingPoint:
    """A classifier of the model's classes on a pretrained encoder from a folder or the hub."""
    import transformers

    source = settings.start
    folder = Path(source).expanduser()
    where = str(folder) if folder.is_dir() else source
    if folder.is_dir():
        check_folder(folder)
    options = {"local_files_only": folder.is_dir() or not hub_reachable()}
    try:
        with quiet_transformers(), torch.random.fork_rng():
            module = transformers.AutoModelForSequenceClassification.from_pretrained(
                where,
                num_labels=len(model.labels),
                id2label=dict(enumerate(model.labels)),
                use_safetensors=True,
                ignore_mismatched_sizes=True,
                **options,
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, **options)
    except Exception as error:  # transformers raises many kinds; each means that there is nothing to start from
        raise ModelError(load_error(where, error, remote=False)) from error
    padding = tokenizer.pad_token_id
    if padding is None:
        raise ModelError(f"the tokenizer of {where} has no padding token; start from another encoder")
    device, limit = torch.device("cpu"), min(settings.max_length, tokenizer.model_max_length)
    if isinstance(model, TextModel):
        device, limit = model.networks[0].baseline.device, min(limit, model.limit)
    takes_types = "token_type_ids" in tokenizer.model_input_names
    remark = f"Retrained from the pretrained encoder {source} with a new head."
    module = module.float().to(device)
    return StartingPoint(module, tokenizer, Head.SOFTMAX, int(padding), limit, takes_types, False, remark)
