"""Dry runs end to end on data that are learned in seconds: verdicts, what they rest on, and when there is none."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from groundtruth.dry_run_data import Mean, photographs, sentences, small_resnet

pytest.importorskip("PIL")

from rationales.data import Example
from rationales.errors import DataError, OptionError
from rationales.groundtruth.dryrun import dry_run
from rationales.report.dry_run import page, show

OCCLUSION = {"name": "occlusion", "options": {"window": 1}, "title": "leave one out"}
QUICK = {"epochs": 8, "min_epochs": 2, "learning_rate": 3e-3}


def texts(count=150, **fields):
    return [Example(f"s{index}", text, "ab"[index % 2], **fields) for index, text in enumerate(sentences(count))]


@pytest.fixture(scope="module")
def run():
    """Two plants in texts, one with distractors."""
    stages, shares = [], []

    @contextmanager
    def stage(message):
        stages.append(message)
        yield shares.append

    result = dry_run(
        texts(),
        plants=["trigger", {"name": "cn"}],
        methods=[OCCLUSION, "saliency"],
        training=QUICK | {"epochs": 25},
        inputs=12,
        progress_bar=stage,
    )
    return result, stages, shares


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = photographs(tmp_path_factory.mktemp("photos"), 90)
    (folder / "owl" / "broken.png").write_bytes(b"not a picture")
    return dry_run(
        folder,
        plants=[{"name": "noise", "share": 0.15}],
        methods=["saliency"],
        network=small_resnet,
        size=32,
        training={"epochs": 30, "min_epochs": 1, "learning_rate": 3e-3},
        inputs=8,
    )


class TestTexts:
    def test_leaving_out_one_word_finds_the_trigger_and_chance_does_not(self, run):
        outcome = run[0].plants[0]
        assert outcome.plant.name == "trigger"
        rows = {row.title: row for row in outcome.methods}
        assert list(rows) == ["leave one out", "saliency", "random"]
        assert rows["leave one out"].verdict.name == "found"
        assert rows["leave one out"].top_unit.mean == 1.0
        assert rows["random"].verdict.name == "missed"
        assert rows["random"].region.attribution.n == 12

    def test_it_rests_on_a_model_that_relies_on_the_plant(self, run):
        for outcome in run[0].plants:
            assert outcome.no_verdict == ""
            assert outcome.reliance.relies
            assert outcome.reliance.n == outcome.split_sizes[2]
            assert outcome.bound == 0.5
            assert outcome.validation_accuracy > outcome.target_accuracy

    def test_the_trigger_is_the_region_and_nothing_else(self, run):
        for explained in run[0].plants[0].methods[0].explained:
            words = [
                unit.text
                for unit, inside in zip(explained.rationale.units, explained.case.region, strict=True)
                if inside
            ]
            assert words in (["larkspur"], ["foxglove"])
            assert explained.planted.example.label == "ab"[words == ["foxglove"]]
            assert explained.rationale.target == explained.planted.example.label

    def test_only_inputs_that_the_model_gets_right_are_explained(self, run):
        for row in run[0].plants[0].methods:
            for explained in row.explained:
                full = explained.rationale.probabilities["full"]
                assert max(full, key=full.get) == explained.planted.example.label

    def test_distractors_are_measured_where_there_are_any(self, run):
        trigger, articles = run[0].plants
        assert trigger.methods[0].distractors.attribution.n == 0
        assert articles.methods[0].distractors.attribution.n > 0

    def test_every_stage_has_a_bar_of_its_own(self, run):
        _, stages, shares = run
        assert stages[:4] == [
            "reading the data",
            "trigger: planting and trying the methods",
            "trigger: training on 106 examples",
            "trigger: explaining 12 inputs with leave one out",
        ]
        assert max(shares) == 1.0

    def test_the_same_seed_gives_the_same_verdicts(self, run):
        reported = []
        again = dry_run(
            texts(), methods=[OCCLUSION], training=QUICK | {"epochs": 25}, inputs=12, on_result=reported.append
        )
        assert [len(result.methods) for result in reported] == list(range(1, 1 + len(again.plants[0].methods)))
        assert reported[-1].methods == again.plants[0].methods
        first, second = run[0].plants[0].methods[0], again.plants[0].methods[0]
        assert [explained.planted.example.text for explained in first.explained] == [
            explained.planted.example.text for explained in second.explained
        ]
        assert all(
            np.array_equal(explained.case.scores, repeated.case.scores)
            for explained, repeated in zip(first.explained, second.explained, strict=True)
        )


class TestPictures:
    def test_planted_test_pictures_are_explained_and_the_broken_one_is_named(self, pictures):
        (outcome,) = pictures.plants
        assert not outcome.no_verdict
        assert "broken.png" in pictures.notes[0]
        for row in outcome.methods:
            assert {explained.planted.manipulation for explained in row.explained} == {1}
            assert all(explained.planted.changed.any() for explained in row.explained)
            assert all(len(explained.case.scores) == 32 * 32 for explained in row.explained)
        chance = outcome.methods[-1]
        assert chance.region.attribution.mean == pytest.approx(outcome.area, abs=0.02)
        assert chance.verdict.name == "missed"

    def test_the_page_outlines_the_region_of_the_best_and_the_worst(self, pictures):
        content = page(pictures)
        assert content.count("<figure>") == 4
        assert content.count("data:image/jpeg;base64,") == 8
        assert "data:" not in re.sub(r'src="data:image/jpeg;base64,[A-Za-z0-9+/=]+"', "", content).replace(
            "img-src data:", ""
        )

    def test_the_worst_case_is_below_the_best(self, pictures):
        gains = [explained.gain for explained in pictures.plants[0].methods[0].ranked()]
        assert gains == sorted(gains, reverse=True)


class TestNoVerdict:
    def test_a_model_that_never_gets_there(self, tmp_path):
        folder = photographs(tmp_path, 60, classes=())
        result = dry_run(folder, network=Mean, methods=["saliency"], size=64, training={"epochs": 2})
        (outcome,) = result.plants
        assert not result.judged
        assert outcome.methods == ()
        assert "best validation accuracy in 2 epochs was" in outcome.no_verdict
        assert "no verdict" in result.to_markdown()
        assert "No verdict" in page(result)
        assert result.to_dict()["plants"][0]["verdict"] is False

    def test_a_model_that_gets_there_without_the_plant(self):
        """The labels stay nine times in ten, and little is asked of the accuracy: the test refuses."""
        labelled_texts = [replace(example, text=f"{example.label} {example.text}") for example in texts(320)]
        result = dry_run(
            labelled_texts,
            r=0.9,
            methods=[OCCLUSION],
            training={"epochs": 1, "min_epochs": 1, "target_accuracy": 0.2, "learning_rate": 1e-6},
        )
        assert result.plants[0].reached_target
        assert "so the model need not rely on it" in result.plants[0].no_verdict
        assert not result.judged


class TestWhatIsSaid:
    def test_json_is_plain_and_holds_every_number(self, run):
        report = json.loads(run[0].to_json())
        assert (report["kind"], report["examples"], report["seed"]) == ("text", 150, 0)
        trigger = report["plants"][0]
        assert trigger["parameters"]["inserted"] == ["larkspur", "foxglove"]
        assert trigger["reliance"]["p_value"] < 0.01
        method = trigger["methods"][0]
        assert method["verdict"] == "found"
        assert method["attribution"]["low"] <= method["attribution"]["mean"] <= method["attribution"]["high"]
        assert method["inputs"] == 12
        assert len(method["best"]) == 3
        assert set(method["labels"]) == {"a", "b"}

    def test_markdown_has_a_line_for_each_method(self, run):
        report = run[0].to_markdown()
        assert "| leave one out | found" in report
        assert "on distractors" in report
        assert "p = " in report
        assert str(run[0]) == report

    def test_the_terminal_shows_the_same(self, run):
        console = Console(force_terminal=True, width=150, record=True, file=open_nowhere())
        show(run[0], console)
        output = console.export_text()
        assert "trigger: found by leave one out" in output
        assert "Reliance: " in output

    def test_nothing_of_the_data_becomes_markup(self, run):
        outcome = run[0].plants[0]
        row = outcome.methods[0]
        bad = "<script>alert('&')</script>"
        explained = row.explained[0]
        hurt = replace(
            explained,
            planted=replace(explained.planted, example=replace(explained.planted.example, name=bad)),
            rationale=replace(explained.rationale, text=explained.rationale.text + bad, target=bad),
        )
        result = replace(
            run[0],
            data=bad,
            notes=(bad,),
            plants=(
                replace(
                    outcome,
                    labels=(bad, "b"),
                    network=bad,
                    notes=(bad,),
                    left_out=((bad, bad),),
                    methods=(replace(row, title=bad, explained=(hurt,), error=bad),),
                ),
                replace(outcome, no_verdict=bad, methods=()),
            ),
        )
        content = page(result)
        assert "<script" not in content
        assert content.count("&lt;script&gt;") >= 9
        assert "default-src 'none'" in content

    def test_the_plant_is_outlined_in_texts(self, run):
        outcome = run[0].plants[0]
        content = page(replace(run[0], plants=(outcome,)))
        spans = re.findall(r'<span class="[^"]*plant"[^>]*>([^<]+)</span>', content)
        assert set(spans) <= {"larkspur", "foxglove"}
        assert len(spans) == 8  # two methods, two best and two worst cases each


class TestMistakes:
    def test_what_is_wrong_is_told_before_anything_is_trained(self, monkeypatch):
        def never(*_, **__):
            raise AssertionError("training began")

        monkeypatch.setattr("rationales.groundtruth.dryrun.execution.train_on_plant", never)
        examples = texts(60)
        for wrong, message in [
            ({"plants": ["nothing"]}, "there is no plant 'nothing'"),
            ({"plants": ["blur"]}, "blur is planted in images, not in texts"),
            ({"plants": [{"name": "trigger", "level": 2}]}, "no levels of visibility"),
            ({"methods": ["grad-cam"]}, "grad-cam is for images"),
            ({"methods": ["nothing"]}, "there is no method 'nothing'"),
            ({"methods": ["marc-instant"]}, "marc-instant cannot explain transformer"),
            ({"network": "resnet34"}, "there is no network 'resnet34' here"),
            ({"r": 2.0}, "between 0 and 1"),
            ({"r": 1.0}, "choose a smaller r"),
            ({"inputs": 0}, "one input or more"),
            ({"seed": -1}, "the seed must be a whole number from 0 on, not -1"),
            ({"seed": 1.5}, "the seed must be a whole number"),
            ({"training": {"epoch": 3}}, "no setting 'epoch'"),
            ({"training": {"epochs": "many"}}, "the training setting epochs is an integer"),
            ({"words": 0}, "cut after one word or more"),
            ({"limit": 0}, "limit must be at least 1"),
        ]:
            with pytest.raises((OptionError, DataError), match=re.escape(message)):
                dry_run(examples, **wrong)

    def test_a_plant_that_covers_everything(self, tmp_path):
        with pytest.raises(DataError, match="covers 100% of the inputs"):
            dry_run(photographs(tmp_path, 60), plants=[{"name": "noise", "top": 0, "bottom": 224}], size=32)

    def test_a_plant_that_fits_nothing(self):
        examples = [Example(str(index), "bread and sea", "ab"[index % 2]) for index in range(60)]
        with pytest.raises(DataError, match="articles fits none of the 60 examples"):
            dry_run(examples, plants=["articles"])

    def test_classes_with_five_examples(self):
        with pytest.raises(DataError, match="class 'a' has 5 examples, too few"):
            dry_run(texts(10))
        examples = [replace(example, label=str(index // 5)) for index, example in enumerate(texts(20))]
        with pytest.raises(DataError, match="there are 20 examples, too few"):
            dry_run(examples)


def open_nowhere():
    import io

    return io.StringIO()
