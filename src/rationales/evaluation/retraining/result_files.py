"""Accuracies of retrained classifiers, one file each, so that an interrupted ROAR goes on where it stopped.

The key of a file covers everything that decides the accuracy: the starting weights, the settings, the texts and labels
of both sets, and the seed. Files are JSON, written atomically; one that cannot be read is computed again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rationales.errors import InputError
from rationales.evaluation.retraining.labelled_tokens import LabelledTokens
from rationales.evaluation.retraining.settings import RetrainingSettings
from rationales.evaluation.retraining.starting_points import StartingPoint
from rationales.evaluation.sanity.weight_groups import weight_groups
from rationales.files import read_text, write_text

FORMAT = 3  # raised when training changes so that accuracies do
_UNRELATED = ("levels", "seeds", "test_share", "start")  # settings that show in the texts and weights themselves


@dataclass(eq=False)
class ResultFiles:
    """A folder of accuracies; None: nothing is stored."""

    folder: Path | None
    problem: str = ""

    def get(self, key: str) -> float | None:
        """The accuracy under this key, if it was stored completely."""
        if self.folder is None:
            return None
        try:
            data = json.loads(read_text(self._path(key)))
            accuracy = float(data["accuracy"])
        except (InputError, ValueError, KeyError, TypeError):
            return None
        return accuracy if data.get("key") == key and data.get("format") == FORMAT and 0 <= accuracy <= 1 else None

    def put(self, key: str, accuracy: float, **facts: Any) -> None:
        """Store an accuracy; after a failed write nothing more is stored."""
        if self.folder is None or self.problem:
            return
        content = json.dumps({"format": FORMAT, "key": key, "accuracy": accuracy, **facts}) + "\n"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(self._path(key), content)
        except (OSError, InputError) as error:
            self.problem = str(error)

    def remarks(self) -> tuple[str, ...]:
        """What a reader of the table should know."""
        return (f"Accuracies were not kept: {self.problem}; the next run starts anew.",) if self.problem else ()

    def _path(self, key: str) -> Path:
        return (self.folder or Path()) / f"{key}.json"


def weights_fingerprint(start: StartingPoint) -> str:
    """Fingerprint of the starting weights and of what reads texts into tokens.

    A head that every classifier draws anew does not count: that of a pretrained encoder is random.
    """
    digest = hashlib.blake2b(digest_size=16)
    config = getattr(start.module, "config", None)
    head = weight_groups(start.module)[0].submodules if hasattr(config, "initializer_range") else ()
    for name, tensor in sorted(start.module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if not start.scratch and name.rpartition(".")[0] not in head:
            digest.update(tensor.detach().cpu().contiguous().view(-1).numpy().tobytes())
    digest.update(repr((type(start.module).__name__, start.head.value, start.padding, start.scratch)).encode())
    return digest.hexdigest()


def data_fingerprint(train: LabelledTokens, test: LabelledTokens) -> str:
    """Fingerprint of the tokens and labels of both sets."""
    digest = hashlib.blake2b(digest_size=16)
    for table in (train, test):
        digest.update(repr((table.ids, table.types, table.labels.tolist())).encode())
    return digest.hexdigest()


def result_key(weights: str, data: str, settings: RetrainingSettings, seed: int) -> str:
    """The name of a file."""
    chosen = {name: value for name, value in asdict(settings).items() if name not in _UNRELATED}
    content = repr((FORMAT, weights, data, sorted(chosen.items()), seed))
    return hashlib.blake2b(content.encode(), digest_size=20).hexdigest()
