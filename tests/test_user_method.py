"""A method of the user's own, from a script outside the package, works wherever a name does."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from groundtruth.dry_run_data import sentences

import rationales

SCRIPT = """
from dataclasses import dataclass
import rationales

@dataclass(frozen=True)
class WordLength(rationales.Method):
    name = "word-length"
    summary = "the position of a word, as a stand-in for a real method"
    def scores(self, batch, target, progress=None):
        positions = batch.rows.unit.to(batch.dtype)
        return rationales.Attribution(positions * batch.rows.real)

model = rationales.load()
result = rationales.explain(model, "A dull film about a harbour.", method=WordLength())
comparison = rationales.compare(model, "A dull film about a harbour.", methods=["random", WordLength()])
examples = [rationales.Example(name="a", text="A dull film.", label="negative", spans=((2, 6),))]
table = rationales.evaluate(model, examples, methods=[WordLength()], metrics=["sufficiency"])
assert result.method == "word-length" and result.scores.argmax() == len(result.units) - 1
assert comparison.titles == ("random", "word-length") and "word-length" in str(comparison)
assert [row.title for row in table.rows] == ["word-length", "random"]
"""


def run(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_explain_compare_and_evaluate_take_a_method_object():
    run(SCRIPT)


@dataclass(frozen=True)
class LastWord(rationales.Method):
    """Scores rise with the position of a word."""

    name = "last-word"
    summary = "the position of a word"

    def scores(self, batch, target, progress=None):
        return rationales.Attribution(batch.rows.unit.to(batch.dtype) * batch.rows.real)


def test_a_dry_run_judges_a_method_object():
    examples = [rationales.Example(str(i), text, "ab"[i % 2]) for i, text in enumerate(sentences(150))]
    training = {"epochs": 25, "min_epochs": 2, "learning_rate": 3e-3}
    result = rationales.dry_run(examples, methods=[LastWord()], training=training, inputs=12)
    assert [method.title for method in result.plants[0].methods] == ["last-word", "random"]
    assert result.plants[0].methods[0].verdict.name != "found"
