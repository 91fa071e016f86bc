"""Figures of texts for papers: all words are there, in order, the rationale is underlined, nothing is markup."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from commands import error, run
from hypothesis import given
from hypothesis import strategies as st

from rationales.errors import OptionError
from rationales.models.text.units import words
from rationales.rationale import Rationale, Unit
from rationales.report.figures.latex import escape
from rationales.report.figures.text_figure import tint
from rationales.report.figures.text_layout import lay_out, text_pieces

NASTY = "50% of $100 & {odd} film_ -- 'so' ``they'' say ^~ #1 \\section <b> it's bad?`"


def rationale_of(text, pair=None, **changes):
    """A rationale whose first two words are selected; every other word speaks against the target."""
    texts = [text] if pair is None else [text, pair]
    units = tuple(Unit(source[start:end], start, end, number)
                  for number, source in enumerate(texts) for start, end in words(source))  # fmt: skip
    scores = np.array([(-1) ** number / (1 + number) for number in range(len(units))], dtype=np.float32)
    probabilities = {name: {"no": 0.1, "yes": 0.9} for name in ("full", "rationale", "complement", "baseline")}
    fields = {"target": "yes", "labels": ("no", "yes"), "probabilities": probabilities, "method": "m", "model": "model"}
    selection = np.arange(len(units)) < 2
    return replace(Rationale(text, units, scores, pair=pair, selection=selection, **fields), **changes)


def monospace(text):
    return float(len(text))


@given(st.text(alphabet="ab .,\n\tאב", min_size=1, max_size=80).filter(lambda text: any(map(str.isalnum, text))))
def test_pieces_rebuild_the_text(text):
    assert "".join(piece.text for piece in text_pieces(rationale_of(text))) == text


@given(st.lists(st.text(alphabet="abcdef", min_size=1, max_size=30), min_size=1, max_size=25), st.integers(8, 40))
def test_no_piece_is_outside_a_line_and_none_overlaps(written, line_width):
    placed = lay_out(text_pieces(rationale_of(" ".join(written))), monospace, line_width)
    assert "".join(piece.piece.text for piece in placed if not piece.piece.is_space) == "".join(written)
    for before, after in pairwise(placed):
        assert (after.line, after.x) >= (before.line, before.x + before.width) or after.line > before.line
    assert all(piece.x >= 0 and piece.x + piece.width <= line_width for piece in placed)


def test_a_text_from_right_to_left_begins_at_the_right():
    placed = lay_out(text_pieces(rationale_of("אבג דה")), monospace, 20)
    assert placed[0].x == 17
    assert placed[-1].x < placed[0].x


def test_lines_break_at_white_space_and_at_line_ends():
    placed = lay_out(text_pieces(rationale_of("aaa bbb, ccc\nddd")), monospace, 8)
    assert {piece.piece.text: piece.line for piece in placed if not piece.piece.is_space} == {
        "aaa": 0, "bbb": 0, ",": 0, "ccc": 1, "ddd": 2}  # fmt: skip


def test_colours_tell_for_from_against_and_grow_with_the_score():
    assert tint(0.0) is None
    assert tint(1.0) == "#f9c56d", "0.6 x (245, 158, 11) + 0.4 x 255"
    assert tint(-1.0) == "#89b4fa"
    shades = [sum(int(tint(share)[start : start + 2], 16) for start in (1, 3, 5)) for share in (0.3, 0.6, 1.0)]
    assert shades == sorted(shades, reverse=True)


@pytest.mark.parametrize("ending", ["svg", "pdf"])
def test_a_figure_is_written_and_the_same_every_time(tmp_path, ending):
    rationale = rationale_of(NASTY + " A bad film.", name="<x>")
    first, second = (getattr(rationale, f"to_{ending}")(tmp_path / f"{name}.{ending}") for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(b"<?xml" if ending == "svg" else b"%PDF")


def test_a_figure_has_a_line_below_the_rationale(tmp_path):
    rationale = rationale_of("A bad film. It was long.")
    without = replace(rationale, selection=np.zeros(len(rationale.units), dtype=bool))
    lines = [figure.to_svg(tmp_path / "figure.svg").read_text(encoding="utf-8").count("line2d")
             for figure in (rationale, without)]  # fmt: skip
    assert lines == [len(rationale.spans()), 0]


def test_a_pair_has_both_texts(tmp_path):
    rationale = rationale_of("A bad film.", "It was long.")
    assert rationale.to_pdf(tmp_path / "pair.pdf").stat().st_size > 1000
    assert rationale.to_latex().count("\\noindent") == 2


def test_a_font_that_lacks_the_letters_is_reported(tmp_path):
    with pytest.raises(OptionError, match="font="):
        rationale_of("悪い映画 bad").to_svg(tmp_path / "figure.svg")


def test_other_endings_and_images_are_refused(tmp_path):
    rationale = rationale_of("A bad film.")
    with pytest.raises(OptionError, match="does not end in"):
        rationale.to_svg(tmp_path / "figure.png")
    with pytest.raises(OptionError, match="inches"):
        rationale.to_pdf(tmp_path / "figure.pdf", width=100)
    assert not list(tmp_path.iterdir())


@given(st.text(alphabet="ab\\{}$&#%_^~<>|\"'`-?! ", max_size=30))
def test_latex_prints_what_was_written(text):
    """Read the escapes back by hand: every command stands for one character, and {} for none."""
    commands = {"textbackslash": "\\", "textasciicircum": "^", "textasciitilde": "~", "textless": "<",
                "textgreater": ">", "textbar": "|", "textquotedbl": '"'}  # fmt: skip
    escaped = re.sub(r"\\(text[a-z]+)\{\}", lambda match: f"\x01{list(commands).index(match[1])}", escape(text))
    escaped = escaped.replace("{}", "")
    escaped = re.sub(r"\\([{}$&#%_])", lambda match: f"\x02{match[1]}", escaped)
    assert not re.search(r"(?<!\x02)[\\{}$&#%_^~]", escaped)
    printed = re.sub(r"\x01(\d)", lambda match: list(commands.values())[int(match[1])], escaped).replace("\x02", "")
    assert printed == text


def test_latex_compiles(tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("there is no pdflatex")
    rationale_of(NASTY).to_latex(tmp_path / "rationale.tex")
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{xcolor}"
        "\\begin{document}\\input{rationale.tex}\\end{document}",
        encoding="utf-8",
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_command_writes_figures(tmp_path):
    paths = [tmp_path / f"why.{ending}" for ending in ("svg", "pdf", "tex")]
    flags = [flag for path in paths for flag in ("--figure", path)]
    result = run("explain", "A dull film.", "--method", "occlusion", *flags)
    assert result.exit_code == 0, result.output
    assert all(path.stat().st_size > 300 for path in paths)
    assert "not why.png" in error(run("explain", "A dull film.", "--figure", tmp_path / "why.png"))
