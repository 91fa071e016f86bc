"""The rationale of a text as LaTeX: a paragraph to paste into a paper, with its macros above it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from rationales.files import write_text
from rationales.rationale import Rationale
from rationales.report.bidirectional import visible
from rationales.report.figures.text_layout import TextPiece, text_pieces
from rationales.report.wording import prediction_sentence

STRONGEST = 60  # per cent of the strongest colour
MACROS = r"""% Needs \usepackage{xcolor} and \usepackage[T1]{fontenc}; beyond Latin letters also LuaLaTeX and a font.
\definecolor{rationalefor}{RGB}{245,158,11}
\definecolor{rationaleagainst}{RGB}{59,130,246}
\providecommand{\rationaleword}[3]{\begingroup\setlength{\fboxsep}{0.6pt}\colorbox{#1!#2}{\strut#3}\endgroup}
\providecommand{\rationalepart}[1]{\underline{\strut#1}}
"""
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}
_LIGATURES = re.compile(r"(?<=[-'`?!,<>])(?=[-'`,<>])")  # between characters that fonts join: --, '', ?`


def to_latex(rationale: Rationale, path: str | os.PathLike[str] | None = None) -> str | Path:
    """The rationale of a text as LaTeX; with a `path` it is written there."""
    paragraphs = [
        "\\noindent " + "".join(map(_piece, text_pieces(rationale, index))).strip()
        for index in ((0,) if rationale.pair is None else (0, 1))
    ]
    heading = f"{prediction_sentence(rationale)} -- {rationale.method}, {rationale.model}"
    comment = " ".join(visible(heading).split())
    content = f"% {comment}\n{MACROS}" + "\n\n".join(paragraphs) + "\n"
    return content if path is None else write_text(path, content)


def escape(text: str) -> str:
    """A text such that LaTeX prints exactly these characters; controls become spaces."""
    printed = "".join(character if character.isprintable() else " " for character in visible(text))
    separate = _LIGATURES.sub("\x00", printed)
    return "".join("{}" if character == "\x00" else _ESCAPES.get(character, character) for character in separate)


def _piece(piece: TextPiece) -> str:
    if piece.is_space:
        return "\n\n\\noindent " if piece.text.count("\n") > 1 else " "
    word = escape(piece.text)
    if piece.selected:
        word = rf"\rationalepart{{{word}}}"
    percent = round(STRONGEST * abs(piece.strength) ** 1.4)
    if percent < 1:
        return word
    return rf"\rationaleword{{rationale{'for' if piece.strength > 0 else 'against'}}}{{{percent}}}{{{word}}}"
