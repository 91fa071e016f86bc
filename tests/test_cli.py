"""The command: what goes to which stream, which exit code, which file. Mostly with a front door made for the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from samples import make_rationale
from typer.testing import CliRunner, Result

import rationales
from rationales import Rationale, cli
from rationales.cli.inputs import options, target
from rationales.errors import OptionError
from rationales.methods import list_methods as available
from rationales.models.image.efficientnet import lite_weights
from rationales.rationale import Note
from rationales.report.terminal import progress

Run = Callable[..., Result]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command asked the library for; the library answers with the last word as the rationale."""
    requests: dict[str, Any] = {}

    def load(source: str | None = None, **options: Any) -> SimpleNamespace:
        requests.update(source=source, load=options)
        return SimpleNamespace(labels=("negative", "positive"), name="a-model", kind="text")

    def explain(model: SimpleNamespace, inputs: Any, **options: Any) -> Rationale:
        requests.update(inputs=inputs, explain=options)
        text, pair = inputs if isinstance(inputs, tuple) else (inputs, None)
        scores = [0.0] * (len(text.split()) + len((pair or "").split()) - 1) + [1.0]
        return make_rationale(text, scores, pair=pair, notes=(Note("x", "try more steps"),), name=options["names"])

    monkeypatch.setitem(vars(rationales), "load", load)
    monkeypatch.setitem(vars(rationales), "explain", explain)
    return requests


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)

    def invoke(*arguments: str, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(cli.app, list(arguments), input=stdin)

    return invoke


def error(result: Result) -> str:
    """The one line that a mistake is answered with."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


class TestWhereTheTextComesFrom:
    def test_the_argument(self, run: Run, requests: dict[str, Any]) -> None:
        assert run("explain", "not good").exit_code == 0
        assert requests["inputs"] == "not good"

    @pytest.mark.parametrize("arguments", [[], ["-"]], ids=["nothing", "dash"])
    def test_standard_input(self, run: Run, requests: dict[str, Any], arguments: list[str]) -> None:
        run("explain", *arguments, stdin="naïve\r\n😀 \n".encode())
        assert requests["inputs"] == "naïve\r\n😀 \n"

    def test_a_file_byte_for_byte(self, run: Run, requests: dict[str, Any]) -> None:
        Path("a.txt").write_bytes("línea\r\ntwo \n".encode())
        run("explain", "--file", "a.txt")
        assert requests["inputs"] == "línea\r\ntwo \n"
        assert requests["explain"]["names"] == "a.txt"

    def test_a_pair(self, run: Run, requests: dict[str, Any]) -> None:
        run("explain", "a man", "--pair", "a woman")
        assert requests["inputs"] == ("a man", "a woman")

    def test_an_argument_and_a_file_are_one_too_many(self, run: Run, requests: dict[str, Any]) -> None:
        assert "not both" in error(run("explain", "text", "--file", "a.txt"))

    def test_standard_input_must_be_utf8(self, run: Run, requests: dict[str, Any]) -> None:
        assert "not UTF-8 (byte 1 is 0xff)" in error(run("explain", stdin=b"a\xff"))

    def test_standard_input_must_be_text(self, run: Run, requests: dict[str, Any]) -> None:
        assert "binary" in error(run("explain", stdin=b"a\x00b"))

    def test_an_argument_must_be_utf8(self, run: Run, requests: dict[str, Any]) -> None:
        assert "not UTF-8" in error(run("explain", os.fsdecode(b"caf\xe9")))

    @pytest.mark.parametrize(
        ("content", "expected"), [(b"caf\xe9", "not UTF-8"), (b"\x00\x01", "binary"), (None, "no file")]
    )
    def test_a_file_must_be_text(
        self, run: Run, requests: dict[str, Any], content: bytes | None, expected: str
    ) -> None:
        if content is not None:
            Path("a.txt").write_bytes(content)
        assert expected in error(run("explain", "--file", "a.txt"))


class TestWhatIsAsked:
    def test_options_of_the_model(self, run: Run, requests: dict[str, Any]) -> None:
        options = {"unit": "token", "baseline": "mask", "device": "cpu"}
        arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
        run("explain", "a", "--model", "m", *arguments)
        assert requests["source"] == "m"
        assert requests["load"] == options | {"fit": None, "trust_remote_code": False}
        run("explain", "a", "--model", "m", "--trust-remote-code")
        assert requests["load"]["trust_remote_code"] is True

    def test_values_are_json_where_they_can_be(self) -> None:
        assert options(["flag=true", "none=null", "name=a=b", 'quoted="50"', "list=[1, 2]"]) == {
            "flag": True,
            "none": None,
            "name": "a=b",
            "quoted": "50",
            "list": [1, 2],
        }

    def test_options_of_the_method_are_json_where_they_can_be(self, run: Run, requests: dict[str, Any]) -> None:
        settings = ["steps=50", "learning_rate=0.5", "stop=paper", 'kernel="sigma"']
        arguments = [item for setting in settings for item in ("--set", setting)]
        run("explain", "a", "--method", "marc", "--seed", "3", *arguments)
        assert requests["explain"]["options"] == {"steps": 50, "learning_rate": 0.5, "stop": "paper", "kernel": "sigma"}
        assert requests["explain"]["method"] == "marc"
        assert requests["explain"]["seed"] == 3

    @pytest.mark.parametrize("wrong", ["steps", "=3", " = 3"])
    def test_a_setting_needs_a_name_and_a_value(self, run: Run, requests: dict[str, Any], wrong: str) -> None:
        assert "name=value" in error(run("explain", "a", "--set", wrong))

    @pytest.mark.parametrize(
        ("argument", "expected"), [("positive", "positive"), ("1", 1), ("other", "other"), ("²", "²")]
    )
    def test_a_target_is_a_label_or_its_number(
        self, run: Run, requests: dict[str, Any], argument: str, expected: str | int
    ) -> None:
        run("explain", "a", "--target", argument)
        assert requests["explain"]["target"] == expected

    def test_a_label_that_looks_like_a_number_is_a_label(self) -> None:
        assert target("1", ("3", "1")) == "1"

    @pytest.mark.parametrize("wrong", [["--unit", "letter"], ["--seed", "x"], ["--nonsense"]], ids=str)
    def test_a_wrong_option_leaves_with_2(self, run: Run, requests: dict[str, Any], wrong: list[str]) -> None:
        result = run("explain", "a", *wrong)
        assert result.exit_code == 2
        assert "Traceback" not in result.output
        assert "inputs" not in requests


class TestWhatIsWritten:
    def test_the_terminal_shows_spans_and_probabilities(self, run: Run, requests: dict[str, Any]) -> None:
        output = run("explain", "really not good").stdout
        assert "really not [[good]]" in output
        for number in ("90.0 %", "80.0 %", "30.0 %"):
            assert number in output
        assert "note: try more steps" in output

    def test_json_is_one_object_and_the_only_thing_on_stdout(self, run: Run, requests: dict[str, Any]) -> None:
        result = run("explain", "naïve 😀", "--json", "--save", "r.json", "--html", "r.html")
        assert (
            json.loads(result.stdout)
            == make_rationale("naïve 😀", [0, 1], notes=(Note("x", "try more steps"),)).to_dict()
        )
        assert result.stdout.count("\n") == 1
        assert result.stderr.splitlines() == ["note: try more steps"]

    def test_a_saved_result_can_be_loaded(self, run: Run, requests: dict[str, Any]) -> None:
        run("explain", "not good", "--save", "r.json")
        assert Rationale.load("r.json").text == "not good"

    def test_a_page_is_written(self, run: Run, requests: dict[str, Any]) -> None:
        result = run("explain", "not good", "--html", "r.html")
        assert Path("r.html").read_text(encoding="utf-8").startswith("<!doctype html>")
        assert "wrote r.html" in result.stderr

    @pytest.mark.parametrize("option", ["--html", "--save"])
    @pytest.mark.parametrize(
        ("where", "expected"), [("nowhere/r", "nowhere does not exist"), (".", "folder"), ("a.txt", "overwritten")]
    )
    def test_a_place_that_cannot_be_written_is_told_before_the_work(
        self, run: Run, requests: dict[str, Any], option: str, where: str, expected: str
    ) -> None:
        Path("a.txt").write_text("a text")
        assert expected in error(run("explain", "--file", "a.txt", option, where))
        assert requests == {}

    def test_two_outputs_need_two_names(self, run: Run, requests: dict[str, Any]) -> None:
        assert "other output" in error(run("explain", "a", "--save", "r", "--html", "./r"))

    def test_an_error_of_the_library_is_one_line(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def load(*_: Any, **__: Any) -> None:
            raise OptionError("no such\nthing")

        monkeypatch.setitem(vars(rationales), "load", load)
        assert error(run("explain", "a", "--json")) == "no such thing"

    def test_a_bug_is_not_hidden(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def load(*_: Any, **__: Any) -> None:
            raise ZeroDivisionError

        monkeypatch.setitem(vars(rationales), "load", load)
        assert isinstance(run("explain", "a").exception, ZeroDivisionError)


class TestLists:
    def test_every_method_is_listed_with_its_options(self, run: Run) -> None:
        listed = run("methods").stdout
        for method in available():
            assert any(line.startswith(f"{method.name} ") and method.summary in line for line in listed.splitlines())
            details = run("methods", method.name).stdout
            assert all(f"  {option.name}=" in details and option.help in details for option in method.options)

    def test_an_unknown_method_is_answered_with_the_known_ones(self, run: Run) -> None:
        message = error(run("methods", "nonsense"))
        assert all(method.name in message for method in available())

    def test_every_model_is_listed(self, run: Run) -> None:
        listed = run("models").stdout
        assert all(model.name in listed and model.summary in listed for model in rationales.list_models())


class TestHelp:
    @pytest.mark.parametrize("command", ["explain", "models", "methods"])
    def test_every_command_has_an_example(self, run: Run, command: str) -> None:
        result = run(command, "--help")
        assert result.exit_code == 0
        assert f"rationales {command}" in result.stdout.partition("Example")[2]

    def test_no_arguments_print_the_help(self, run: Run) -> None:
        result = run()
        assert result.exit_code == 0
        assert "explain" in result.stdout

    def test_the_version(self, run: Run) -> None:
        assert run("--version").stdout == f"rationales {rationales.__version__}\n"

    def test_help_loads_nothing_heavy(self) -> None:
        code = (
            "import sys; from typer.testing import CliRunner; from rationales.cli import app;"
            "assert CliRunner().invoke(app, ['explain', '--help']).exit_code == 0;"
            "print([name for name in ('torch', 'transformers', 'tokenizers') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"


class TestProgress:
    @pytest.fixture
    def terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rich.console.Console.is_terminal", True)
        monkeypatch.setattr("rich.console.Console.is_dumb_terminal", False)  # whatever TERM says where this runs

    @pytest.mark.parametrize(("patience", "expected"), [(60.0, False), (-1.0, True)], ids=["quick", "slow"])
    def test_a_bar_appears_only_after_a_while(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        terminal: None,
        patience: float,
        expected: bool,
    ) -> None:
        monkeypatch.setattr(progress, "BAR_DELAY", patience)
        with progress.progress("explaining") as report:
            assert report is not None
            report(0.5)
        captured = capsys.readouterr()
        assert ("explaining" in captured.err) == expected
        assert captured.out == ""

    def test_there_is_none_when_nobody_watches(self) -> None:
        with progress.progress("explaining") as report:
            assert report is None


SLOW_LIBRARY = """
import signal, sys, time, rationales
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background jobs deaf to it
from types import SimpleNamespace
rationales.load = lambda *a, **k: SimpleNamespace(labels=("a", "b"), kind="text")
def explain(*a, **k):
    print("working", file=sys.stderr, flush=True)
    time.sleep(60)
rationales.explain = explain
from rationales.cli import main
sys.argv = ["rationales", "explain", "a text", "--html", "r.html", "--save", "r.json"]
main()
"""


class TestProcess:
    def test_ctrl_c_leaves_with_130_and_no_file(self, tmp_path: Path) -> None:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen([sys.executable, "-c", SLOW_LIBRARY], cwd=tmp_path, **pipes) as process:
            assert process.stderr is not None
            assert process.stderr.readline() == "working\n"
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert out == ""
        assert err == "interrupted\n"
        assert list(tmp_path.iterdir()) == []

    def test_a_mistake_leaves_with_2_and_no_traceback(self, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "rationales", "explain", "a text", "--html", "nowhere/r.html"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr == "error: cannot write nowhere/r.html: the folder nowhere does not exist\n"

    def test_a_real_model_is_explained_in_silence(self, tmp_path: Path) -> None:
        from families import tiny

        module, tokenizer = tiny("bert")
        module.save_pretrained(tmp_path / "model")
        tokenizer.save_pretrained(tmp_path / "model")
        command = [sys.executable, "-m", "rationales", "explain", "-", "--model", str(tmp_path / "model"), "--json"]
        command += ["--set", "steps=3", "--target", "2", "--html", str(tmp_path / "r.html")]
        text = "This movie was not good, naïve 😀.\n"
        done = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
        data = json.loads(done.stdout)
        assert data["text"] == text
        assert data["target"] == module.config.id2label[2]
        assert data["options"]["steps"] == 3
        assert all(line.startswith("note: ") for line in done.stderr.decode().splitlines())
        assert (tmp_path / "r.html").exists()

    def test_the_embedded_model_says_why_not_good_is_negative(self) -> None:
        command = [sys.executable, "-m", "rationales", "explain", "This movie was not good .", "--json"]
        data = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        assert data["target"] == "negative"
        words = " ".join(span["text"] for span in data["spans"]).split()
        assert {"not", "good"} <= set(words)


class TestPictures:
    @pytest.fixture
    def picture(self, tmp_path: Path) -> Path:
        image = pytest.importorskip("PIL.Image")
        if lite_weights(0) is None:
            pytest.skip("the weights of EfficientNet-Lite0 are not installed")
        path = tmp_path / "square.png"
        image.new("RGB", (40, 30), "red").save(path)
        return path

    def test_is_explained_saved_and_drawn(self, run: Run, picture: Path) -> None:
        outputs = [str(picture.with_name(name)) for name in ("r.png", "r.html", "r.json")]
        done = run("explain", "--image", str(picture), "--method", "random", "--json",
                   "--png", outputs[0], "--html", outputs[1], "--save", outputs[2])  # fmt: skip
        data = json.loads(done.stdout)
        assert data["units"] == {"height": 30, "width": 40}
        assert len(data["scores"]) == 30 * 40
        assert {"top", "left", "bottom", "right", "area", "score"} == set(data["regions"][0])
        assert all(Path(path).stat().st_size > 0 for path in outputs)

    def test_fit_and_baselines_are_the_users(self, run: Run, picture: Path) -> None:
        done = run("explain", "--image", str(picture), "--method", "random", "--json",
                   "--fit", "pad", "--baseline", f"black,blur-5,{picture}")  # fmt: skip
        assert json.loads(done.stdout)["baseline"] == f"black, blur-5, {picture}"
        assert "crop, pad, squash" in error(run("explain", "--image", str(picture), "--fit", "stretch"))
        assert "there is no baseline 'purple'" in error(run("explain", "--image", str(picture), "--baseline", "purple"))

    def test_is_not_a_text(self, run: Run, picture: Path) -> None:
        assert "not both" in error(run("explain", "a text", "--image", str(picture)))
        assert "a model of texts" in error(run("explain", "--image", str(picture), "--model", "embedded"))
        assert "give --image" in error(run("explain", "a text", "--model", "efficientnet-lite0"))
        assert "for images" in error(run("explain", "a text", "--png", "r.png"))

    def test_must_be_one(self, run: Run, picture: Path) -> None:
        picture.write_text("hello")
        assert "is a text" in error(run("explain", "--image", str(picture)))
