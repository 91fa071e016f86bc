"""`rationales check` passes on the model of the record and fails, with exit code 1, on one that decides otherwise."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import error, run

import rationales
from rationales.errors import DataError, OptionError
from rationales.evaluation.drift import DriftLimits, compare_with_record, read_record, repeat_record, write_record

TEXTS = ["The bridge was old.", "Nobody saw the joke.", "A bridge and a joke."]


def finder(*words):
    """A function that decides by these words: the first raises the probability most."""

    def probabilities(texts):
        return [0.1 + 0.8 * sum(word in text for word in words) / max(1, len(words)) for text in texts]

    return rationales.load(probabilities, labels=["absent", "found"])


def record_of(model, **options):
    return rationales.explain(model, TEXTS, method="loo-empty", target="found", **options)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "texts.csv"
    path.write_text("text\n" + "\n".join(["A dull and endless film.", "Warm and lovely throughout."]), encoding="utf-8")
    return path


def test_the_model_of_the_record_has_not_drifted():
    record = record_of(finder("bridge", "joke"))
    drift = compare_with_record(record, repeat_record(finder("bridge", "joke"), record))
    assert drift.failures == []
    assert drift.rank.mean == pytest.approx(1)
    assert drift.overlap.mean == 1
    assert drift.flips == 0
    assert drift.worst == []


def test_a_model_that_decides_by_other_words_has_drifted():
    record = record_of(finder("bridge"))
    drift = compare_with_record(record, repeat_record(finder("old", "joke"), record))
    assert drift.to_dict()["passed"] is False
    assert len(drift.failures) == 3
    assert drift.worst[0].flipped


def test_figures_by_hand():
    """Scores (1, 2, 3) against (1, 3, 2): rho = 1 - 6 x 2 / (3 x 8) = 0.5. Selected: 2 of 3 units, one in common."""
    record = rationales.explain(finder("bridge"), ["old grey bridge"], method="loo-empty", target="found", top=2)
    before, after = (_with(record[0], scores, selected) for scores, selected in
                     (([1, 2, 3], [0, 1, 1]), ([1, 3, 2], [1, 1, 0])))  # fmt: skip
    drift = compare_with_record([before], [after])
    assert drift.texts[0].rank == pytest.approx(0.5)
    assert drift.texts[0].overlap == pytest.approx(1 / 3)


def test_other_units_are_compared_by_characters():
    words = rationales.explain(finder("bridge"), ["An old bridge. It fell."], method="loo-empty", target="found")
    sentences = rationales.load(lambda texts: [0.9 * ("bridge" in text) for text in texts], unit="sentence")
    repeated = rationales.explain(sentences, ["An old bridge. It fell."], method="loo-empty", target=1)
    drift = compare_with_record(words, repeated)
    assert 0 < drift.texts[0].overlap < 1


def test_limits_decide():
    record = record_of(finder("bridge"))
    repeated = repeat_record(finder("old", "joke"), record)
    assert compare_with_record(record, repeated, DriftLimits(rank=-1, overlap=0, flips=1)).failures == []
    with pytest.raises(OptionError, match="between"):
        DriftLimits(overlap=1.5)


def test_a_record_keeps_method_options_seed_target_and_contrast(tmp_path):
    model = rationales.load(lambda texts: [[0.2, 0.3, 0.5] for _ in texts], labels=["a", "b", "c"])
    settings = {"method": "lime", "options": {"samples": 20}, "seed": 3, "smooth": 2.0, "snap": False}
    record = [
        *rationales.explain(model, TEXTS[:2], target="b", against="c", **settings),
        rationales.explain(model, TEXTS[2], method="occlusion", target="a"),
    ]
    (tmp_path / "record.jsonl").write_text(write_record(record), encoding="utf-8")
    again = repeat_record(model, read_record(tmp_path / "record.jsonl"))
    for before, after in zip(record, again, strict=True):
        assert (after.method, after.seed, after.target, after.against) == (
            before.method, before.seed, before.target, before.against)  # fmt: skip
        assert dict(after.options) == dict(before.options)
        assert np.allclose(after.scores, before.scores)


def test_the_command_passes_on_its_own_record_and_fails_after_a_change(table, tmp_path):
    record = tmp_path / "record.jsonl"
    record.write_text(run("explain", "--file", table, "--method", "occlusion", "--json").stdout, encoding="utf-8")
    result = run("check", record, "--format", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["overlap"]["mean"] == 1
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    for line in lines:  # as if another model had been recorded
        line["scores"] = line["scores"][::-1]
        line.pop("selection", None)
    record.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    assert run("check", record).exit_code == 1
    updated = run("check", record, "--update")
    assert updated.exit_code == 0
    assert run("check", record).exit_code == 0


def test_annotations_and_the_summary_of_github_actions(table, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    record = tmp_path / "record.jsonl"
    record.write_text(run("explain", "--file", table, "--method", "occlusion", "--json").stdout, encoding="utf-8")
    result = run("check", record, "--min-rank", "1", "--format", "github")
    assert ("::error title=Rationales drifted" in result.stdout) == (result.exit_code == 1)
    assert "| overlap (IoU) | 1.000 | ≥ 0.5 |" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_what_is_no_record_is_named(tmp_path):
    assert "no record" in error(run("check", tmp_path / "missing.jsonl"))
    path = tmp_path / "record.jsonl"
    path.write_text('{"text": "no rationale"}\n', encoding="utf-8")
    assert "line 1 holds no rationale" in error(run("check", path))
    path.write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="is empty"):
        read_record(path)


def _with(rationale, scores, selected):
    from dataclasses import replace

    return replace(rationale, scores=np.array(scores, dtype=np.float32), selection=np.array(selected, dtype=bool))
