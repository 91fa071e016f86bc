"""`import rationales` is cheap and leaves no trace; what is heavy loads when it is first used."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import rationales

HEAVY = {
    *("torch", "transformers", "tokenizers", "safetensors", "numpy", "regex"),
    *("typer", "click", "rich", "ray", "gradio", "captum"),
}
TORCH = "print(json.dumps('torch' in sys.modules))"


def run(code):
    """The last line that a fresh interpreter prints, as JSON."""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout.splitlines()[-1])


def test_nothing_heavy_is_imported():
    loaded = run("import json, sys, rationales; print(json.dumps(list(sys.modules)))")
    assert HEAVY.isdisjoint(name.partition(".")[0] for name in loaded)


def test_importing_takes_less_than_half_a_second():
    """By the interpreter's own count, nothing compiled beforehand."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import rationales"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    line = next(line for line in done.stderr.splitlines() if line.split("|")[-1].strip() == "rationales")
    assert int(line.split("|")[1]) < 500_000  # microseconds


def test_what_is_listed_is_there_and_nothing_else():
    assert set(dir(rationales)) == set(rationales.__all__)
    assert all(getattr(rationales, name) is not None for name in rationales.__all__)
    with pytest.raises(AttributeError, match="no attribute 'explian'"):
        rationales.explian  # noqa: B018  # the access is what is tested


def test_looking_does_not_load():
    """Completion in a shell asks for names, not for what they stand for."""
    assert run(f"import json, sys, rationales; dir(rationales); hasattr(rationales, 'no'); {TORCH}") is False


def test_errors_and_results_need_no_torch():
    assert run(f"import json, sys; from rationales import Rationale, RationalesError; {TORCH}") is False


def test_methods_can_be_listed_whatever_was_loaded_before():
    """A package of the same name takes the function's place in the module as soon as anything loads it."""
    listing = "[one.name for one in rationales.list_methods()]"
    first, then = run(f"import json, rationales; a = {listing}; rationales.explain; print(json.dumps([a, {listing}]))")
    assert "marc" in first
    assert first == then


def test_nothing_global_changes():
    """Seeds, warnings, environment, logging, threads, signals, number formats: as they were, also after first use."""
    code = """
import gc, json, locale, logging, os, random, signal, sys, threading, warnings
import numpy, torch, transformers
def state():
    return [
        repr(random.getstate()), repr(numpy.random.get_state()), torch.random.get_rng_state().tolist(),
        repr(warnings.filters), sorted(os.environ.items()), logging.root.level, repr(logging.root.handlers),
        logging.getLogger("transformers").level, transformers.utils.logging.get_verbosity(),
        torch.get_num_threads(), torch.is_grad_enabled(), str(torch.get_default_dtype()), repr(numpy.geterr()),
        torch.backends.cuda.matmul.allow_tf32, torch.are_deterministic_algorithms_enabled(),
        threading.active_count(), repr(signal.getsignal(signal.SIGINT)), os.getcwd(), locale.setlocale(locale.LC_ALL),
        sys.getrecursionlimit(), gc.isenabled(), gc.get_freeze_count(), gc.get_threshold(),
        repr(sys.excepthook), repr(sys.path),
    ]
before = state()
import rationales
after = state()
rationales.load, rationales.explain, rationales.list_methods()
print(json.dumps([before == after, before == state()]))
"""
    assert run(code) == [True, True]


def test_a_sentence_with_the_embedded_model_loads_no_machinery():
    """Each of these takes longer to load than the sentence takes to explain."""
    code = """
import json, sys
from typer.testing import CliRunner
from rationales.cli import app
for request in (["explain", "A dull film that I loved."], ["explain", "Na\u00efve \U0001f642", "--unit", "token"],
                ["explain", "A dull film.", "--pair", "I loved it.", "--method", "marc-instant"]):
    result = CliRunner().invoke(app, request)
    assert result.exit_code == 0, result.output
print(json.dumps(list(sys.modules)))
"""
    machinery = {
        *("transformers", "huggingface_hub", "torch._dynamo", "torch._inductor"),
        *("torch.distributed.tensor", "torch.distributed.fsdp", "sympy", "scipy", "sklearn", "skimage", "matplotlib"),
        *("pandas", "torchvision", "captum"),
    }
    assert machinery.isdisjoint(run(code))


def test_the_command_never_searches_torch_for_garbage():
    """A full collection of its objects takes as long as a third of an explanation; the interpreter's end is one."""
    code = """
import gc, json, sys
from rationales.cli import main
from rationales.cli.streams import import_torch
import_torch()
def is_searched(candidate):
    return any(tracked is candidate for tracked in gc.get_objects())
import torch
before_the_end = [is_searched(torch), gc.isenabled()]
frozen = gc.get_freeze_count()
import_torch()
before_the_end.append(gc.get_freeze_count() - frozen)  # only an import freezes
class Late: pass
assert is_searched(Late)
sys.argv = ["rationales", "--version"]
try:
    main()
except SystemExit:
    print(json.dumps([before_the_end, is_searched(Late)]))
"""
    assert run(code) == [[False, True, 0], False]
