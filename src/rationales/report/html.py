"""A rationale as HTML: a self-contained page with a threshold slider, or a fragment for notebooks.

Nothing is fetched from anywhere, and nothing of the text, the labels, the model's name or the options ever becomes
markup: all of it goes through `escape`, and the page's policy lets only its own style and script run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, overload

import numpy as np

from rationales.files import write_text
from rationales.rationale import Frames, Grid, Rationale
from rationales.report import viewer
from rationales.report.head import asset, footer, head
from rationales.report.index import index
from rationales.report.marked import LEVELS, embedded_json, escape, marked, shown
from rationales.report.probabilities import STALE, class_table, sentence, target_table
from rationales.report.profile import profile
from rationales.report.scale import Scale, scale_of, start_of
from rationales.report.stops import entered, slider_data, stops, threshold_input
from rationales.report.wave import wave
from rationales.report.words import count, leading, rule, selection, unit_name, when

if TYPE_CHECKING:
    from typing_extensions import Unpack

LISTED = 200  # spans in the list under the text; page.js knows the same number


class Layout(TypedDict, total=False):
    """How a page is laid out other than one rationale below the other."""

    titles: Sequence[str] | None
    lead: str
    name: str


@overload
def page(rationales: Sequence[Rationale] | Rationale, path: None = None, **layout: Unpack[Layout]) -> str: ...


@overload
def page(
    rationales: Sequence[Rationale] | Rationale, path: str | os.PathLike[str], **layout: Unpack[Layout]
) -> Path: ...


def page(
    rationales: Sequence[Rationale] | Rationale,
    path: str | os.PathLike[str] | None = None,
    *,
    titles: Sequence[str] | None = None,
    lead: str = "",
    name: str = "",
) -> str | Path:
    """One self-contained page of all `rationales`, with an index where there are several.

    Gives the page as a string, or, where `path` is given, writes it and gives the path. With `titles`, one for each,
    rationales stand side by side under them, below `lead` (HTML); `name` is the page's own title.
    """
    several = [rationales] if isinstance(rationales, Rationale) else list(rationales)
    content = _page(several, titles, lead, name)
    return content if path is None else write_text(path, content)


def _page(rationales: Sequence[Rationale], titles: Sequence[str] | None, lead: str, name: str) -> str:
    style = asset("article.css") + asset("page.css")
    script = asset("probabilities.js") + asset("page.js")
    style += asset("side.css") if titles is not None else ""
    if any(map(_is_picture, rationales)):
        style, script = style + asset("picture.css"), script + asset("picture.js")
    if any(map(_is_sound, rationales)):
        style += asset("wave.css")
    several = len(rationales) != 1
    title = name or (count(len(rationales), "rationale") if several else f"Why {rationales[0].question}?")
    articles = (
        _article(rationale, "h2" if several or titles else "h1", number, titles[number - 1] if titles else None)
        for number, rationale in enumerate(rationales, 1)
    )
    return "\n".join(
        (
            head(title, style, script),
            '<body class="rationales">',
            "<main>" if titles is None else f'{lead}<main class="side">',
            index(rationales, title) if several and titles is None else "",
            *articles,
            "</main>",
            footer(),
            '<div class="tip" role="status" hidden></div>',
            f"<script>{script}</script>",
            "</body>",
            "</html>",
            "",
        )
    )


def fragment(rationale: Rationale) -> str:
    """The same for a notebook cell: no page around it, no script, no ids; the numbers are the words' titles."""
    style = asset("article.css") + (asset("picture.css") if _is_picture(rationale) else "")
    style += asset("wave.css") if _is_sound(rationale) else ""
    return f'<div class="rationales cell"><style>{style}</style>{_article(rationale, "h3", None)}</div>'


def _article(rationale: Rationale, heading: str, number: int | None, title: str | None = None) -> str:
    question = f"Why <em>{shown(rationale.question)}</em>?" if title is None else shown(title)
    live = number is not None
    scale = scale_of(rationale)
    identity = f' id="r{number}"' if live else ""
    kind = ' class="picture"' if _is_picture(rationale) else ""
    return "\n".join(
        (
            f"<article{identity}{kind}>",
            f"<header>{_kicker(rationale)}",
            f"<{heading}>{question}</{heading}>",
            f'<p class="result">{sentence(rationale)}</p></header>',
            *(_shown_picture if kind else _shown_text)(rationale, scale, number),
            target_table(rationale),
            class_table(rationale, live=live),
            f'<p class="stale">{STALE}</p>' if live and rationale.curve is None else "",
            _notes(rationale),
            _list(rationale, scale) if live else "",
            _provenance(rationale),
            "</article>",
        )
    )


def _is_picture(rationale: Rationale) -> bool:
    return isinstance(rationale.units, Grid)


def _is_sound(rationale: Rationale) -> bool:
    return isinstance(rationale.units, Frames)


def _shown_text(rationale: Rationale, scale: Scale, number: int | None) -> Iterator[str]:
    """The text, or the sound as a line of frames, and what belongs under it."""
    if isinstance(rationale.units, Frames):
        yield wave(rationale, rationale.units, scale, live=number is not None)
        yield _controls(rationale, scale, number) if number else _caption(rationale, _legend(rationale, scale))
        return
    parts = [0] if rationale.pair is None else [0, 1]
    for part in parts:
        yield marked(rationale, scale, part, live=number is not None, several=len(parts) > 1)
    yield _controls(rationale, scale, number) if number is not None else _caption(rationale, _legend(rationale, scale))


def _shown_picture(rationale: Rationale, scale: Scale, number: int | None) -> Iterator[str]:
    """The picture, and what belongs under it."""
    yield viewer.side_by_side(rationale) if number is None else viewer.view(rationale)
    legend = viewer.legend(rationale, scale)
    yield _caption(rationale, legend) if number is None else viewer.controls(rationale, scale, number, legend)


def _kicker(rationale: Rationale) -> str:
    facts = [rationale.name, rationale.model, rationale.method]
    return f'<p class="kicker">{" · ".join(shown(fact) for fact in facts if fact)}</p>'


def _controls(rationale: Rationale, scale: Scale, number: int) -> str:
    """The slider with the profile above it; the script reads its numbers from the JSON beside it."""
    start, stopping = start_of(rationale, scale), stops(rationale, scale)
    numbers = np.nan_to_num(rationale.scores, posinf=scale.high, neginf=scale.low)
    data = {
        "scores": [float(np.format_float_positional(score, unique=True)) for score in numbers],
        "low": scale.low,
        "high": scale.high,
        "start": start,
        "keeps": scale.keeps,
        "unit": unit_name(rationale),
        **slider_data(rationale, scale, stopping),
    }
    if stopping:
        data["entered"] = entered(stopping, rationale.scores, rationale.selected()).tolist()
    if isinstance(rationale.units, Frames):
        data |= {"seconds": rationale.units.seconds, "duration": rationale.units.duration}
    return f"""<section class="controls" aria-label="Threshold">
{profile(rationale, scale, start)}
<div class="row">
<label for="t{number}">Threshold</label>
{threshold_input(rationale, scale, number)}
<b class="threshold">{escape(scale.number(start))}</b>
<output for="t{number}">{escape(selection(rationale))}</output>
<span class="buttons"><button type="button" class="previous" aria-label="Previous span" title="Previous span">‹</button>
<button type="button" class="next" aria-label="Next span" title="Next span">›</button>
<button type="button" class="reset" title="Back to the rule: {escape(rule(rationale))}" disabled>Reset</button></span>
</div>
{_legend(rationale, scale)}
<script type="application/json">{embedded_json(data)}</script>
</section>"""


def _caption(rationale: Rationale, legend: str) -> str:
    return f'<p class="caption">{escape(selection(rationale))} · {escape(rule(rationale))}</p>{legend}'


def _legend(rationale: Rationale, scale: Scale) -> str:
    """The colours and the numbers they stand for."""
    steps = range(0, LEVELS + 1, 4)
    positive = "".join(f'<i class="f{step}"></i>' for step in steps)
    if not (rationale.scores < 0).any():
        return f'<p class="legend" aria-hidden="true">0 {positive} {escape(scale.number(scale.peak))}</p>'
    negative = "".join(f'<i class="a{step}"></i>' for step in reversed(steps[1:]))
    peak = scale.number(scale.peak)
    return f'<p class="legend" aria-hidden="true">against −{escape(peak)} {negative}{positive} {escape(peak)} for</p>'


def _notes(rationale: Rationale) -> str:
    """Warnings in a frame, then what is only said for information."""
    parts = []
    for level, look, label in (("warning", "notes", "Notes"), ("info", "notes info", "Information")):
        items = "".join(f"<li>{shown(note.message)}</li>" for note in rationale.notes if note.level == level)
        parts.append(f'<aside class="{look}" aria-label="{label}"><ul>{items}</ul></aside>' if items else "")
    return "".join(parts)


def _list(rationale: Rationale, scale: Scale) -> str:
    """The spans without the text around them: for reading aloud, for copying, and for finding them in a long text."""
    if _is_picture(rationale):
        return viewer.region_list(rationale, scale)
    if _is_sound(rationale):
        found = [(one.score, when(one)) for one in rationale.times()]
    else:
        found = [(span.score, span.text) for span in rationale.spans()]
    items = "".join(
        f'<li><b>{escape(scale.number(score))}</b> <bdi lang="">{shown(text)}</bdi></li>'
        for score, text in found[:LISTED]
    )
    return f'<details class="spans"><summary>The spans as a list</summary><ol>{items}</ol></details>'


def _provenance(rationale: Rationale) -> str:
    facts = {
        "Method": rationale.method,
        **{
            f"Option {name}": json.dumps(value, default=str, ensure_ascii=False)
            for name, value in rationale.options.items()
        },
        "Selected": rule(rationale),
        "Seed": str(rationale.seed),
        "Steps": f"{rationale.steps:,}",
        "Stopped by": rationale.stop,
        "Segments": f"{rationale.segments:,}",
        "Baseline": rationale.baseline,
        "Model": rationale.model,
        "Labels": ", ".join(rationale.labels) if not _is_picture(rationale) else _labels(rationale),
        "Seconds": f"{rationale.seconds:.2f}",
        **{f"Version of {name}": version for name, version in rationale.versions.items()},
    }
    items = "".join(f"<dt>{shown(name)}</dt><dd>{shown(value)}</dd>" for name, value in facts.items() if value)
    return f'<details class="provenance"><summary>How this was made</summary><dl>{items}</dl></details>'


def _labels(rationale: Rationale) -> str:
    """The labels of an image model, which may have a thousand."""
    shown = leading(rationale)
    return ", ".join(shown) + (f" … {len(rationale.labels):,} in all" if len(shown) < len(rationale.labels) else "")
