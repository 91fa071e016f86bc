"""The page of a study: one trial at a time, blinded, in an order of its own for every person.

Texts, labels and titles never become markup, and the page holds no names of methods, no scores and no key.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from rationales.rationale import Grid, Rationale
from rationales.report.canvas import canvas, data_uri
from rationales.report.html.document import asset, footer, head
from rationales.report.html.marked_text import display_text, embedded_json, escape, right_to_left
from rationales.study.trials import HumanStudy, StudyTrial

QUESTIONS = {
    "compare": "Which explanation shows better why the model decided so?",
    "mark": "Mark the words that you think show why.",
}
INSTRUCTIONS = {
    "compare": "You will see inputs that a model classified, each with two explanations: the parts of the input that "
    "are said to have led to the decision. For each, choose the explanation that shows better why the model "
    "decided so. There are no right answers.",
    "mark": "You will see texts that a model classified. For each, mark the words that you think show why the text "
    "belongs to this class: click words, draw across several, or use Tab and Space. There are no right answers.",
}
RECORDED = "Your answers and the time for each are recorded, under the code that you enter, and nothing else."
CODE = """<p><label for="person">Your code</label>
<input id="person" maxlength="100" autocomplete="off" placeholder="as you were told, or any"></p>"""
CHOICES = (("A", "Explanation A", "1"), ("same", "About the same", "2"), ("B", "Explanation B", "3"))


def study_page(study: HumanStudy) -> str:
    """The page, self-contained; answers are downloaded as a file or, from a server, sent to it."""
    style = asset("article.css") + _asset("study.css")
    script = _asset("study.js")
    data = {"study": study.identity, "task": study.task, "trials": [trial.identity for trial in study.trials]}
    count = len(study.trials)
    return "\n".join(
        (
            head(study.title, style, script, connects=True),
            '<body class="rationales study">',
            "<main>",
            '<section class="card" id="intro">',
            f"<h1>{display_text(study.title)}</h1>",
            f"<p>{escape(INSTRUCTIONS[study.task])}</p>",
            f"<p>{count} {'question' if count == 1 else 'questions'}. {RECORDED}</p>",
            CODE,
            '<button type="button" id="start">Start</button>',
            "</section>",
            '<p class="progress" role="status" aria-live="polite" hidden></p>',
            *(markup for trial in study.trials for markup in _trial(trial, study.task)),
            '<section class="card" id="end" hidden><h1>Thank you</h1><p id="outcome" role="status"></p>',
            '<button type="button" id="download">Download your answers</button></section>',
            "</main>",
            footer(),
            f'<script type="application/json" id="study">{embedded_json(data)}</script>',
            f"<script>{script}</script>",
            "</body>",
            "</html>",
            "",
        )
    )


def _trial(trial: StudyTrial, task: str) -> Iterator[str]:
    reference = trial.reference
    yield f'<section class="trial card" data-trial="{escape(trial.identity)}" hidden>'
    yield f'<p class="decision">The model says: <strong>{display_text(reference.target)}</strong></p>'
    yield f'<h1 class="question" tabindex="-1">{escape(QUESTIONS[task])}</h1>'
    if task == "mark":
        yield from _words(reference)
        yield f'<p class="row"><label><input type="checkbox" class="none"> Nothing in it shows why</label>{_next()}</p>'
    else:
        yield '<div class="sides">'
        for letter, rationale in zip("AB", trial.rationales, strict=True):
            yield f'<section class="side" aria-label="Explanation {letter}"><h2>{letter}</h2>'
            yield f"{_explanation(rationale)}</section>"
        yield "</div>"
        yield '<fieldset class="choices"><legend>Your answer</legend>'
        for value, label, digit in CHOICES:
            name = escape(trial.identity)
            yield (
                f'<label><input type="radio" name="{name}" value="{value}"> {label} '
                f'<kbd aria-hidden="true">{digit}</kbd></label>'
            )
        yield f'</fieldset><p class="row">{_next()}</p>'
    yield "</section>"


def _next() -> str:
    return '<button type="button" class="next" disabled>Next</button>'


def _explanation(rationale: Rationale) -> str:
    """The input with the rationale marked, in one look for all methods."""
    if isinstance(rationale.units, Grid):
        panels = canvas(rationale)
        images = (("the image", panels.original), ("the part that the explanation shows", panels.cutout()))
        return "".join(f'<img src="{data_uri(pixels)}" alt="{alternative}">' for alternative, pixels in images)
    return "".join(_marked(rationale, text_index) for text_index in ((0,) if rationale.pair is None else (0, 1)))


def _marked(rationale: Rationale, text_index: int) -> str:
    text, position, parts = rationale.text_at(text_index), 0, []
    for span in rationale.spans():
        if span.text_index == text_index:
            parts += [display_text(text[position : span.start]), f"<mark>{display_text(span.text)}</mark>"]
            position = span.end
    return _paragraph(text, "".join(parts) + display_text(text[position:]))


def _words(rationale: Rationale) -> Iterator[str]:
    """The text with a button for every unit."""
    for text_index in (0,) if rationale.pair is None else (0, 1):
        text, position, parts = rationale.text_at(text_index), 0, []
        for number, unit in enumerate(rationale.words):
            if unit.text_index == text_index:
                word = display_text(text[unit.start : unit.end])
                parts.append(display_text(text[position : unit.start]))
                parts.append(
                    f'<button type="button" class="word" aria-pressed="false" data-unit="{number}">{word}</button>'
                )
                position = unit.end
        yield _paragraph(text, "".join(parts) + display_text(text[position:]))


def _paragraph(text: str, content: str) -> str:
    direction = "rtl" if right_to_left(text) else "ltr"
    return f'<p class="shown" dir="{direction}" lang="">{content}</p>'


def _asset(name: str) -> str:
    return files("rationales.study").joinpath("assets", name).read_text(encoding="utf-8")
