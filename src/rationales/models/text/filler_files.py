"""Our own masked language models, which fill in words: found by name, loaded as models of transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from rationales.errors import OptionError
from rationales.models.delta import delta_location, open_delta

if TYPE_CHECKING:
    from transformers import BertForMaskedLM

FILLERS = {  # name -> summary
    "minilm-filler": "fills in masked words of English reviews and sentences; MiniLM-L6 with a head of our own",
    "minilm-filler-sst2": "minilm-filler, trained further on the text of SST-2",
    "minilm-filler-small": "like minilm-filler, of the first three layers of MiniLM only",
}


def load_filler(name: str) -> tuple[BertForMaskedLM, Any]:
    """The masked language model of this name in evaluation mode, and its tokenizer."""
    if name not in FILLERS:
        raise OptionError(f"there is no filler {name!r} among our own; they are {', '.join(FILLERS)}")
    module, tokenizer = open_delta(name, "BertForMaskedLM")
    return cast("BertForMaskedLM", module), tokenizer


def filler_location(name: str) -> str | None:
    """Where a filler is stored, or None if its files or the encoder it is made from are missing."""
    return delta_location(name)
