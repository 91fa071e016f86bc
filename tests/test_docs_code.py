"""The code in the documentation runs as it stands.

Python blocks of a page run in order in one namespace; of shell blocks the lines that call `rationales` run, and make
targets, scripts and extras that are named must exist. Everything happens in a folder with small stand-ins
(`doc_files.py`). A comment right before a block says why it is not run, or that it takes long:

    <!-- not run: needs the data set eraser-movies -->
    <!-- slow: an image takes half a minute -->
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import run
from doc_files import write_files
from doc_pages import PAGES, ROOT, CodeBlock, Page, parse

PARSED = [parse(path) for path in PAGES]
WITH_CODE = [page for page in PARSED if page.blocks]
DATA = ("text", "json", "csv", "yaml")  # blocks that show a file or an output
SHELL = ("sh", "bash")
IN_SHORT = {  # training goes on for as long as it is told
    "--minutes 5": "--minutes 0.05",
    "--minutes 60": "--minutes 0.05",
    "minutes=5": "minutes=0.05",
}
NO_PLANT_LEARNED = 1  # the exit code of a dry run without a verdict: its stand-ins are small


def is_code(block: CodeBlock) -> bool:
    return block.language not in DATA


def takes_long(words: list[str]) -> bool:
    """Commands that train a network on images, or optimise a mask of 50,000 pixels, wherever they stand."""
    return "--list" not in words and ("dry-run" in words[:2] or bool({"--image", "--images"} & {*words}))


def commands(block: CodeBlock) -> list[str]:
    """The lines of a shell block, continued lines joined, comments left out."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def is_slow(block: CodeBlock) -> bool:
    if block.not_run:
        return False
    shell = block.language in SHELL
    return bool(block.slow) or (shell and any(takes_long(shlex.split(line, comments=True)) for line in commands(block)))


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("stand-ins"))


@pytest.fixture
def folder(stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the stand-ins, as the current folder."""
    home = tmp_path / "work"
    shutil.copytree(stand_ins, home)
    monkeypatch.chdir(home)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(home))
    return home


@pytest.mark.parametrize("page", PARSED, ids=lambda page: page.name)
def test_every_block_names_its_language(page: Page) -> None:
    known = ("python", *SHELL, *DATA)
    assert [block.line for block in page.blocks if block.language not in known] == []


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Page, folder: Path) -> None:
    run_page(page, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in WITH_CODE if any(map(is_slow, page.blocks))], ids=lambda page: page.name
)
def test_the_code_of_a_page_runs_also_where_it_takes_long(page: Page, folder: Path) -> None:
    run_page(page, slow=True)


def run_page(page: Page, slow: bool) -> None:
    """Run the blocks in order; `slow`: those that take long as well."""
    namespace: dict[str, Any] = {"__name__": "__main__"}  # what a script has
    if page.name == "README.md":  # "objects you already have"
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        namespace["module"] = AutoModelForSequenceClassification.from_pretrained("my-model")
        namespace["tokenizer"] = AutoTokenizer.from_pretrained("my-model")
    for block in page.blocks:
        if block.not_run or (block.slow and not slow):
            continue
        where = f"{page.name}, the block at line {block.line}"
        if block.language == "python":
            padded = "\n" * block.line + for_this_machine(block.text)  # a traceback then shows the page's line
            exec(compile(padded, str(page.path), "exec"), namespace)  # noqa: S102
        elif block.language in SHELL:
            for line in commands(block):
                run_command(line, where, slow)
        elif block.language == "json":
            for line in block.text.splitlines():
                json.loads(line)


def for_this_machine(text: str) -> str:
    """Shorter times, and the processor where there is no accelerator."""
    for long, short in IN_SHORT.items():
        text = text.replace(long, short)
    return text if torch.cuda.is_available() else re.sub(r"\bcuda\b", "cpu", text)


def run_command(line: str, where: str, slow: bool) -> None:
    """Run a line that calls `rationales`, with its pipe and its redirection; check what any other line names."""
    lexer = shlex.shlex(for_this_machine(line), posix=True, punctuation_chars="|>")
    lexer.whitespace_split = True
    words = list(lexer)
    target, text = None, None
    if ">" in words:
        words, target = words[: words.index(">")], words[words.index(">") + 1]
    if "|" in words:
        source, words = words[: words.index("|")], words[words.index("|") + 1 :]
        assert source[0] == "cat", f"{where}: only cat can be piped: {line}"
        text = Path(source[1]).read_text(encoding="utf-8")
    if words[0] != "rationales":
        check_names(words, where)
        return
    if takes_long(words) and not slow:
        return
    result = run(*words[1:], stdin=text)
    accepted = (0, NO_PLANT_LEARNED) if words[1] == "dry-run" else (0,)
    assert result.exit_code in accepted, f"{where}: {line}\n{result.output}\n{result.exception!r}"
    if target:
        Path(target).write_text(result.stdout, encoding="utf-8")


def check_names(words: list[str], where: str) -> None:
    """Make targets, scripts, modules and extras that a line names exist."""
    if words[0] == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        named = [word for word in words[1:] if "=" not in word]
        assert set(named) <= set(targets), f"{where}: the Makefile has no {set(named) - set(targets)}"
    elif words[0] in ("python", ".venv/bin/python") and words[1] == "-m":
        parts = words[2].split(".")
        if parts[0] not in ("pip", "pytest"):
            assert (ROOT / Path(*parts)).with_suffix(".py").is_file() or parts[0] == "rationales", f"{where}: {words}"
    elif words[0] in ("python", ".venv/bin/python"):
        assert (ROOT / words[1]).is_file(), f"{where}: there is no {words[1]}"
    elif words[:2] == ["pip", "install"]:
        extras = re.findall(r"\[([\w,]+)\]", " ".join(words))
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        for extra in ",".join(extras).split(",") if extras else []:
            assert re.search(rf"^{extra} = \[", project, re.MULTILINE), f"{where}: there is no extra {extra}"
    else:
        pytest.fail(f"{where}: {' '.join(words)} is neither run nor checked; give a reason: <!-- not run: ... -->")


def test_a_block_that_does_not_run_is_found(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    blocks = ("import rationales\nmodel = rationales.load()", "rationales.explain(modle, 'a')")
    path.write_text("\n".join(f"```python\n{block}\n```\n" for block in blocks), encoding="utf-8")
    with pytest.raises(NameError, match="modle"):
        run_page(_at_home(parse(path)), slow=False)
    path.write_text("```sh\nrationales explain --no-such-option\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="no-such-option"):
        run_page(_at_home(parse(path)), slow=False)
    path.write_text("```sh\ncurl example.org\n```\n", encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match="neither run nor checked"):
        run_page(_at_home(parse(path)), slow=False)


def test_a_mark_holds_for_the_block_right_after_it_and_needs_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(
        "<!-- not run: needs a GPU -->\n```sh\nls\n```\n```sh\nls\n```\n<!-- not run: -->\n```sh\nls\n```\n",
        encoding="utf-8",
    )
    assert [block.not_run for block in parse(path).blocks] == ["needs a GPU", "", ""]


def _at_home(page: Page) -> Page:
    return Page(ROOT / "page.md", page.blocks, page.links, page.anchors)
