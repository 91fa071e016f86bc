"""Mistakes on the command line: one line, before anything is loaded, and an exit code."""

import subprocess
import sys
from pathlib import Path

import pytest
from commands import error, run

import rationales

FULL = Path("/dev/full")
needs_full_device = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")


@pytest.fixture(autouse=True)
def nothing_loads(monkeypatch):
    """The mistake must be told before a model is loaded."""

    def load(*_arguments, **_options):
        raise AssertionError("a model was loaded")

    monkeypatch.setitem(vars(rationales), "load", load)


class TestNames:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["explain", "hi", "--method", "oclusion"], "no method 'oclusion' (did you mean 'occlusion'?)"),
            (["explain", "hi", "--method", "zzz"], "no method 'zzz'; there are: marc,"),
            (["explain", "hi", "--set", "stepz=3"], "no option 'stepz' (did you mean 'steps'?)"),
            (["explain", "hi", "--set", "preset=word"], "(did you mean 'words'?); its presets are: default, words"),
            (["explain", "hi", "--set", "steps=many"], "option steps must be a whole number, not 'many'"),
            (["compare", "hi", "--methods", "marc,saliencyy"], "no method 'saliencyy' (did you mean 'saliency'?)"),
            (["compare", "hi", "--methods", "marc,lime:sample=3"], "no option 'sample' (did you mean 'samples'?)"),
            (["compare", "hi", "--methods", "marc:stepz=3"], "no option 'stepz' (did you mean 'steps'?)"),
            (["compare", "hi", "--methods", "marc"], "compare takes at least two methods"),
            (
                ["compare", "hi", "--methods", "marc lime"],
                "no method 'marc lime'; separate methods by commas: marc,lime",
            ),
            (["methods", "oclusion"], "no method 'oclusion' (did you mean 'occlusion'?)"),
        ],
    )
    def test_are_checked_before_a_model_is_loaded(self, arguments, message):
        assert message in error(run(*arguments))

    def test_are_checked_before_transformers_is_loaded(self):
        code = (
            "import sys; from typer.testing import CliRunner; from rationales.cli import app\n"
            "result = CliRunner().invoke(app, ['explain', 'hi', '--method', 'oclusion'])\n"
            "print(result.exit_code, 'transformers' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        assert done.stdout.split() == ["2", "False"]

    def test_a_preset_of_pictures_is_none_of_texts(self, tmp_path):
        picture = tmp_path / "p.png"
        picture.write_bytes(b"")
        assert "no preset 'vit'" in error(run("explain", "hi", "--set", "preset=vit"))
        assert "no preset 'words'" in error(run("explain", "--image", picture, "--set", "preset=words"))


class TestInputs:
    @pytest.mark.parametrize("flag", ["--audio", "--image"])
    def test_a_file_that_is_not_there(self, flag):
        assert error(run("explain", flag, "nope.file")) == "there is no file nope.file"

    @pytest.mark.parametrize("flag", ["--audio", "--image"])
    def test_a_folder_with_nothing_to_explain(self, flag, tmp_path):
        assert error(run("explain", flag, tmp_path)).startswith(f"there is nothing to explain in the folder {tmp_path}")

    @pytest.mark.parametrize(
        ("name", "flag"), [("ok.csv", "--file"), ("review", "--file"), ("cat.JPG", "--image"), ("voice.wav", "--audio")]
    )
    @pytest.mark.parametrize("command", ["explain", "compare"])
    def test_a_file_is_no_text(self, command, name, flag, tmp_path):
        path = tmp_path / name
        path.write_text("A fine film.", encoding="utf-8")
        assert error(run(command, path)) == f"{path} is a file; to explain what it holds: {flag} {path}"

    @pytest.mark.parametrize(
        ("share", "message"),
        [
            ("3", "share is a fraction from 0 to 1, not 3; for 3 units use --top 3"),
            ("1.5", "share is a fraction from 0 to 1, not 1.5"),
            ("-0.5", "share is a fraction from 0 to 1, not -0.5"),
            ("nan", "share is a fraction from 0 to 1, not nan"),
            ("inf", "share is a fraction from 0 to 1, not inf"),
        ],
    )
    def test_a_share_is_a_fraction(self, share, message):
        assert error(run("explain", "hi", "--share", share)) == message

    @pytest.mark.parametrize("pair", ["", "  "])
    def test_an_empty_pair_is_blamed_itself(self, pair):
        assert error(run("explain", "A man sleeps.", "--pair", pair)).startswith("--pair is empty")

    @pytest.mark.parametrize(("flag", "units"), [("--image", "pixels"), ("--audio", "frames")])
    def test_units_of_texts_are_for_texts(self, flag, units, tmp_path):
        source = tmp_path / "source"
        source.write_bytes(b"")
        assert error(run("explain", flag, source, "--unit", "token")).endswith(f"are its {units}")

    def test_comparing_pictures_by_token(self, tmp_path):
        source = tmp_path / "source"
        source.write_bytes(b"")
        assert "--unit is for texts" in error(run("compare", "--image", source, "--unit", "token"))


@needs_full_device
class TestFullOutput:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["--version"],
            ["metrics", "--json"],
            ["explain", "hi", "--method", "random"],
            *(
                pytest.param(words.split(), marks=pytest.mark.slow)
                for words in (
                    "--help",
                    "models",
                    "methods",
                    "explain hi --method random --json",
                    "compare hi --methods random,occlusion",
                )
            ),
        ],
        ids=" ".join,
    )
    def test_is_one_line_and_exit_code_1(self, arguments):
        command = [sys.executable, "-m", "rationales", *arguments]
        with FULL.open("w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.splitlines() == ["error: cannot write to standard output: No space left on device"]
