"""The command `rationales`: one file for each group of commands, all of them entered in `app`."""

from rationales.cli.app import app, main
from rationales.cli.audit.check import check as _check
from rationales.cli.audit.study import study_app as _study_app
from rationales.cli.compare import compare as _compare
from rationales.cli.corpus import report as _report
from rationales.cli.corpus import run as _run
from rationales.cli.corpus import show as _show
from rationales.cli.dry_run import dry_run as _dry_run
from rationales.cli.evaluate import evaluate as _evaluate
from rationales.cli.explain import explain as _explain
from rationales.cli.lists import methods as _methods
from rationales.cli.lists import metrics as _metrics
from rationales.cli.lists import models as _models
from rationales.cli.reproduce import reproduce as _reproduce
from rationales.cli.stability import stability as _stability
from rationales.cli.streams import prepare_libraries
from rationales.cli.train_masker import train_masker as _train_masker
from rationales.cli.web.serve import serve as _serve

__all__ = ["app", "main", "prepare_libraries"]

_COMMANDS = (_explain, _compare, _run, _show, _report, _evaluate, _stability, _reproduce, _dry_run, _train_masker)
_SERVERS = (_serve,)
_AUDITS = (_check,)
_LISTS = (_models, _methods, _metrics)
for _command in (*_COMMANDS, *_SERVERS, *_AUDITS, *_LISTS):
    app.command()(_command)
app.add_typer(_study_app)
