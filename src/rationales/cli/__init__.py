"""The command `rationales`: one file for each group of commands, all of them entered in `app`."""

from rationales.cli.app import app, main
from rationales.cli.compare import add as _compare
from rationales.cli.dry_run import add as _dry_run
from rationales.cli.evaluate import add as _evaluate
from rationales.cli.explain import add as _explain
from rationales.cli.lists import add as _lists
from rationales.cli.reproduce import add as _reproduce
from rationales.cli.streams import prepare_libraries
from rationales.cli.train_masker import add as _train_masker

__all__ = ["app", "main", "prepare_libraries"]

for _add in (_explain, _compare, _evaluate, _reproduce, _dry_run, _train_masker, _lists):
    _add(app)
