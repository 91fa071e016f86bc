"""`rationales evaluate`: any data, any methods, a table on the terminal and in files; mistakes in one line."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace

import pytest
import torch
from commands import error, run
from reviews import BAD, GOOD, known_model, movies

import rationales
from rationales.evaluation import collecting
from rationales.evaluation.metrics import METRICS
from rationales.evaluation.protocols import PRESETS
from rationales.evaluation.scores.attribution import score_rows
from rationales.evaluation.tables.table import Table
from rationales.methods import METHODS


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A folder of its own, caches included, and a model that looks for 'bread'."""
    monkeypatch.chdir(tmp_path)
    # not by XDG_CACHE_HOME: matplotlib would look at all fonts again
    monkeypatch.setattr("rationales.data.archives.cache_folder", lambda: tmp_path / "cache" / "data")
    monkeypatch.setattr("rationales.data.reading.cache_folder", lambda: tmp_path / "cache" / "data")
    plain = rationales.load

    def load(source=None, *arguments, **options):
        return plain(*known_model()) if source in (None, "embedded") else plain(source, *arguments, **options)

    monkeypatch.setitem(vars(rationales), "load", load)
    return tmp_path


def texts(path, marked=True, labelled=True):
    lines = []
    for label, several in (("positive", GOOD), ("negative", BAD)):
        for text in several:
            line = {"text": text} | ({"label": label} if labelled else {})
            if marked:
                start = max(text.find("bread"), 0)
                line["spans"] = [[start, start + 5]]
            lines.append(json.dumps(line))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


class TestTable:
    def test_markdown_goes_into_a_pipe_and_all_forms_into_a_folder(self, home):
        done = run("evaluate", texts(home / "t.jsonl"), "--methods", "occlusion:window=1,saliency", "--out", "deep/out")
        assert done.exit_code == 0, done.output
        assert done.stdout == (home / "deep/out/table.md").read_text(encoding="utf-8")
        assert [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("|")][2:] == [
            "occlusion (window=1)",
            "saliency",
            "random",
        ]
        assert "Protocol marc: replaced by pad" in done.stdout
        table = Table.from_json(home / "deep/out/table.json")
        assert table["occlusion (window=1)"].cells["comprehensiveness"].estimate.mean > 0.4
        lines = list(csv.DictReader(io.StringIO((home / "deep/out/table.csv").read_text(encoding="utf-8"))))
        assert {line["metric"] for line in lines} == set(table.metrics)
        assert (home / "deep/out/plot.png").read_bytes().startswith(b"\x89PNG")

    def test_json_is_the_only_thing_on_stdout(self, home):
        done = run("evaluate", texts(home / "t.jsonl"), "--methods", "random", "--json", "--seed", "3", "--limit", "2")
        data = json.loads(done.stdout)
        assert (data["seed"], len(data["inputs"])) == (3, 2)

    def test_a_named_set_and_everything_that_can_be_asked(self, home):
        done = run(
            *("evaluate", "eraser-movies", "--folder", movies(home), "--split", "val", "--limit", "6"),
            *("--methods", "occlusion:window=1:smooth=3:title=wide", "--methods", "random", "--no-cache"),
            *("--protocol", "eraser-code:label=gold", "--metrics", "token-f1@sufficient,spans"),
            *("--metrics", "deletion", "--selection", "top=2", "--smooth", "2", "--json"),
        )  # fmt: skip
        table = Table.from_json(done.stdout)
        assert [row.title for row in table.rows] == ["wide", "random (smooth 2)"]
        assert table["wide"].smooth == 3
        assert table.metrics == ("token-f1@sufficient", "spans", "deletion")
        assert table.selection == "top=2"
        assert (table.protocol.name, table.protocol.label) == ("eraser-code (label=gold)", "gold")
        assert table.protocol.levels == PRESETS["eraser-code"].levels
        assert all("_val_" in name for name in table.inputs)
        assert len({name[:3] for name in table.inputs}) == 2  # both classes, although the file is sorted
        assert not (home / "cache" / "scores").exists()

    def test_without_marks_agreement_is_left_out_and_the_table_says_why(self, home):
        done = run("evaluate", texts(home / "t.jsonl", marked=False), "--methods", "random")
        assert "token-f1 ↑" not in done.stdout
        assert "sufficiency ↓" in done.stdout
        assert "No agreement with people (average-precision, f1-gold-length, token-f1, iou-f1): it needs" in done.stdout

    def test_empty_rationales_are_no_marks_either(self, home):
        path = home / "t.jsonl"
        path.write_text("".join(json.dumps({"text": text, "label": "positive", "spans": []}) + "\n" for text in GOOD))
        assert "No agreement with people" in run("evaluate", path, "--methods", "random").stdout
        assert "needs people's marks" in error(run("evaluate", path, "--methods", "random", "--metrics", "token-f1"))

    def test_one_class_is_enough(self, home):
        path = texts(home / "t.jsonl")
        path.write_text("\n".join(path.read_text(encoding="utf-8").splitlines()[:4]), encoding="utf-8")
        table = Table.from_json(run("evaluate", path, "--methods", "occlusion:window=1:title=sharp", "--json").stdout)
        assert table["sharp"].cells["average-precision"].values == (1.0,) * 4
        assert table["sharp"].cells["comprehensiveness"].estimate.mean > 0.9

    def test_scores_that_are_no_numbers_are_counted_and_named(self, home, monkeypatch):
        plain = METHODS["saliency"].scores

        def sometimes(self, batch, target, progress=None):
            attribution = plain(self, batch, target, progress)
            return replace(attribution, scores=attribution.scores.index_fill(0, torch.tensor([2]), float("nan")))

        monkeypatch.setattr(METHODS["saliency"], "scores", sometimes)
        done = run("evaluate", texts(home / "t.jsonl"), "--methods", "saliency", "--no-cache")
        assert done.exit_code == 0
        assert "(n = 7)" in done.stdout
        assert "saliency: no scores for 1 of 8 inputs (" in done.stdout

    def test_a_table_with_marked_phrases_and_columns_of_other_names(self, home):
        path = home / "t.csv"
        rows = ["review,verdict,phrases", *(f"{text},positive,bread" for text in GOOD)]
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        arguments = (
            "--text-column",
            "review",
            "--label-column",
            "verdict",
            "--methods",
            "occlusion:window=1:title=sharp",
        )
        table = Table.from_json(run("evaluate", path, *arguments, "--json").stdout)
        assert table["sharp"].cells["average-precision"].values == (1.0,) * 4
        assert "has no column text; it has: review, verdict" in error(run("evaluate", path, *arguments[2:]))

    def test_the_limit_keeps_no_more_than_it_says_and_spreads_it_over_the_file(self, home):
        names = json.loads(
            run("evaluate", texts(home / "t.jsonl"), "--methods", "random", "--json", "--limit", "2").stdout
        )
        assert names["inputs"] == ["2", "6"]  # of eight, the middles of two halves

    def test_texts_without_labels_need_a_protocol_without(self, home):
        path = texts(home / "t.jsonl", labelled=False)
        assert "has no label, and protocol marc needs it" in error(run("evaluate", path, "--methods", "random"))
        done = run("evaluate", path, "--methods", "random", "--protocol", "marc:label=predicted", "--json")
        assert json.loads(done.stdout)["protocol"]["label"] == "predicted"

    def test_scores_are_kept_where_it_is_said(self, home, monkeypatch):
        calls = []

        def spy(model, encoded, *arguments, **options):
            calls.append(len(encoded))
            return score_rows(model, encoded, *arguments, **options)

        monkeypatch.setattr(collecting, "score_rows", spy)
        arguments = ("evaluate", texts(home / "t.jsonl"), "--methods", "occlusion", "--cache", "kept")
        first = run(*arguments)
        again = run(*arguments, "--smooth", "2", "--json")
        assert calls == [8, 8]  # occlusion and random; smoothing asks nobody again
        assert again.exit_code == 0
        assert first.stdout == run(*arguments).stdout
        assert calls == [8, 8]

    def test_no_matplotlib_is_no_disaster(self, home, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
        done = run("evaluate", texts(home / "t.jsonl"), "--methods", "random", "--out", "out")
        assert done.exit_code == 0
        assert "no plot: a plot needs matplotlib" in done.stderr
        assert (home / "out" / "table.json").exists()

    def test_a_terminal_gets_a_drawn_table(self, home, monkeypatch):
        monkeypatch.setattr("rich.console.Console.is_terminal", True)
        monkeypatch.setenv("COLUMNS", "140")
        done = run("evaluate", texts(home / "t.jsonl"), "--methods", "saliency")
        assert "| --- |" not in done.stdout
        assert "saliency" in done.stdout
        assert "95 % bootstrap" in done.stdout


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["nowhere.csv"], "no data set and no file 'nowhere.csv'"),
            (["eraser-movies", "--folder", "nowhere"], "there is no folder or archive nowhere"),
            (["t.jsonl", "--methods", "marcc"], "there is no method 'marcc' (did you mean 'marc'?); there are: marc"),
            (["t.jsonl", "--methods", "occlusion:size=3"], "occlusion has no option 'size'; its options are: window"),
            (["t.jsonl", "--methods", "occlusion:3"], "--methods occlusion: takes name=value, not '3'"),
            (["t.jsonl", "--methods", ","], "no method to compare"),
            (["t.jsonl", "--methods", "random,random"], "two rows are called 'random'"),
            (["t.jsonl", "--protocol", "best"], "there is no protocol 'best'; there are: marc"),
            (["t.jsonl", "--protocol", "best:label=gold"], "there is no protocol 'best'; there are: marc"),
            (["t.jsonl", "--protocol", "marc:size=3"], "a protocol has no field 'size'"),
            (["t.jsonl", "--protocol", "marc:levels=3"], "the fields of protocol marc cannot be read"),
            (["t.jsonl", "--metrics", "speed"], "there is no metric 'speed'; there are: sufficiency"),
            (["t.jsonl", "--selection", "half"], "there is no selection 'half'"),
            (["t.jsonl", "--split", "test"], "is one file without splits"),
            (["t.jsonl", "--limit", "0"], "limit must be at least 1"),
            (["t.jsonl", "--smooth", "-1"], "greater than 0"),
            (["t.jsonl", "--cache", "a", "--no-cache"], "not both"),
            (["t.jsonl", "--out", "t.jsonl"], "cannot write into t.jsonl"),
            (["t.jsonl", "--limit", "1"], "at least two marked inputs"),
        ],
    )  # fmt: skip
    def test_are_told_in_one_line(self, home, arguments, message):
        texts(home / "t.jsonl")
        arguments = arguments if "--methods" in arguments else [*arguments, "--methods", "random"]
        assert message in error(run("evaluate", *arguments))

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ({"text": "short", "label": "positive", "spans": [[0, 9]]}, "outside of the text"),
            ({"text": "short", "label": "neutral", "spans": [[0, 2]]}, "the model has no label 'neutral'"),
            ({"text": " ", "label": "positive"}, "empty"),
        ],
    )
    def test_of_the_data_name_the_example(self, home, line, message):
        path = texts(home / "t.jsonl")
        path.write_text(path.read_text(encoding="utf-8") + "\n" + json.dumps(line), encoding="utf-8")
        assert message in error(run("evaluate", path, "--methods", "random"))

    @pytest.mark.parametrize("name", ["", "r7"])
    def test_of_a_label_name_file_and_line(self, home, name):
        path = home / "t.csv"
        path.write_text(f"text,label,name\nsome bread,positive,a\nno soup,neutral,{name}\n", encoding="utf-8")
        message = error(run("evaluate", path, "--methods", "random"))
        assert f"t.csv, line 3{name and ' (r7)'}: the model has no label 'neutral'" in message
        path.write_text(f"text,name\nsome bread,{name}\n", encoding="utf-8")
        message = error(run("evaluate", path, "--methods", "random"))
        assert f"t.csv, line 2{name and ' (r7)'} has no label, and protocol marc needs it" in message

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--methods", "marcc"], "there is no method 'marcc'"),
            (["--methods", "occlusion:size=3"], "occlusion has no option 'size'"),
            (["--methods", "marc:preset=fast"], "marc has no preset 'fast'"),
            (["--metrics", "token-f"], "there is no metric 'token-f' (did you mean 'token-f1'?)"),
            (["--metrics", "deletion@top=2"], "the metric deletion selects no words"),
            (["--protocol", "erasr-code"], "there is no protocol 'erasr-code' (did you mean 'eraser-code'?)"),
            (["--protocol", "marc:lable=gold"], "a protocol has no field 'lable' (did you mean 'label'?)"),
            (["--selection", "fited"], "there is no selection 'fited' (did you mean 'fitted'?)"),
            (["--smooth", "-1"], "greater than 0"),
        ],
    )
    def test_of_names_are_told_before_anything_is_read_or_loaded(self, home, monkeypatch, arguments, message):
        monkeypatch.setitem(vars(rationales), "load", None)
        arguments = arguments if "--methods" in arguments else [*arguments, "--methods", "random"]
        assert message in error(run("evaluate", "nowhere.csv", *arguments))

    def test_of_a_preset_for_another_kind_of_input_are_told_before_the_model_is_loaded(self, home, monkeypatch):
        kinds = {preset: kind for kind, presets in METHODS["marc"].presets.items() for preset in presets}
        preset = next(preset for preset in kinds if preset not in METHODS["marc"].presets["text"])
        monkeypatch.setitem(vars(rationales), "load", None)
        assert f"marc has no preset '{preset}' for this kind of input" in error(
            run("evaluate", texts(home / "t.jsonl"), "--methods", f"marc:preset={preset}")
        )

    def test_data_that_cannot_be_downloaded_come_with_instructions(self, home, monkeypatch):
        from rationales.data import reading
        from rationales.errors import DataError

        def fetch(*_):
            raise DataError("no network")

        monkeypatch.setattr(reading, "fetch", fetch)
        message = error(run("evaluate", "eraser-movies", "--methods", "random"))
        assert "Give the folder it lies in, or get https://" in message

    def test_methods_must_be_named(self):
        done = run("evaluate", "t.jsonl")
        assert done.exit_code == 2
        assert "--methods" in done.stderr

    def test_ctrl_c_leaves_with_130(self, home, monkeypatch):
        def stop(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(METHODS["random"], "scores", stop)
        done = run("evaluate", texts(home / "t.jsonl"), "--methods", "random", "--out", "out")
        assert (done.exit_code, done.stderr) == (130, "interrupted\n")
        assert list((home / "out").iterdir()) == []


class TestMetrics:
    def test_are_listed_with_direction_and_needs(self):
        lines = run("metrics").stdout.splitlines()
        for metric in METRICS.values():
            line = next(line for line in lines if line.startswith(f"{metric.name} "))
            assert metric.summary in line
            assert ("↑" in line, "↓" in line) == (metric.higher is True, metric.higher is False)
            assert all(need in line for need in metric.needs)

    def test_as_json(self):
        listed = json.loads(run("metrics", "--json").stdout)
        assert [metric["name"] for metric in listed] == list(METRICS)
        assert listed[0] == {
            "name": "sufficiency",
            "summary": METRICS["sufficiency"].summary,
            "better": "lower",
            "needs": ["model"],
            "default": True,
        }


@pytest.mark.parametrize("command", ["evaluate", "metrics", "reproduce", "compare"])
def test_every_command_has_an_example(command):
    output = run(command, "--help").stdout
    assert f"rationales {command}" in output.partition("Example")[2]
