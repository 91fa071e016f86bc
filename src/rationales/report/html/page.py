"""A rationale as HTML: a self-contained page with a threshold slider, or a fragment for notebooks.

The page loads nothing. Texts, labels, names and options never become markup: all of them go through `escape`, and the
page's policy allows only its own style and script.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, overload

import numpy as np

from rationales.files import write_text
from rationales.rationale import Frames, Grid, Rationale, TextAndImage
from rationales.report.html import image_view, text_and_image
from rationales.report.html.document import asset, footer, head
from rationales.report.html.index import index
from rationales.report.html.marked_text import LEVELS, display_text, embedded_json, escape, marked
from rationales.report.html.probabilities import STALE, class_table, sentence, target_table
from rationales.report.html.score_profile import profile
from rationales.report.html.slider import selecting_stops, slider_data, stops, threshold_input
from rationales.report.html.waveform import wave
from rationales.report.scale import Scale, rule_threshold, scale_of
from rationales.report.wording import count, listed_labels, rule_text, selection_size, time_range, unit_name

if TYPE_CHECKING:
    from typing_extensions import Unpack

MAX_SPANS = 200  # in the list below the text; page.js has the same number


class PageAdditions(TypedDict, total=False):
    """What is added to a page: endings, style and script."""

    ending: str
    endings: Sequence[str]
    style: str
    script: str


class PageLayout(PageAdditions, total=False):
    """The layout of a page other than one rationale below the other."""

    titles: Sequence[str] | None
    lead: str
    name: str


@overload
def page(rationales: Sequence[Rationale] | Rationale, path: None = None, **layout: Unpack[PageLayout]) -> str: ...


@overload
def page(
    rationales: Sequence[Rationale] | Rationale, path: str | os.PathLike[str], **layout: Unpack[PageLayout]
) -> Path: ...


def page(
    rationales: Sequence[Rationale] | Rationale,
    path: str | os.PathLike[str] | None = None,
    *,
    titles: Sequence[str] | None = None,
    lead: str = "",
    name: str = "",
    ending: str = "",
    endings: Sequence[str] = (),
    style: str = "",
    script: str = "",
) -> str | Path:
    """One self-contained page of all `rationales`, with an index where there are several.

    Returns the page as a string; with `path`, writes the page and returns the path. With `titles`, one for each,
    the rationales are shown side by side below `lead` (HTML); `name` is the title of the page. `ending`: HTML after
    the last rationale; `endings`: HTML at the end of each. `style` and `script` are added to those of the page.
    """
    several = [rationales] if isinstance(rationales, Rationale) else list(rationales)
    content = _page(several, titles, lead, name, ending, endings, style, script)
    return content if path is None else write_text(path, content)


def _page(
    rationales: Sequence[Rationale],
    titles: Sequence[str] | None,
    lead: str,
    name: str,
    ending: str,
    endings: Sequence[str],
    added_style: str,
    added_script: str,
) -> str:
    style = asset("article.css") + asset("page.css")
    script = asset("probabilities.js") + asset("page.js")
    style += asset("side_by_side.css") if titles is not None else ""
    if any(map(_has_both, rationales)):
        style += asset("image.css") if not any(map(_is_image, rationales)) else ""
    if any(map(_is_image, rationales)):
        style, script = style + asset("image.css"), script + asset("image.js")
    if any(map(_is_sound, rationales)):
        style += asset("wave.css")
    style, script = style + added_style, script + added_script
    several = len(rationales) != 1
    title = name or (count(len(rationales), "rationale") if several else f"Why {rationales[0].question}?")
    heading = "h2" if several or titles else "h1"
    article_titles: Sequence[str | None] = [None] * len(rationales) if titles is None else titles
    article_endings = endings or [""] * len(rationales)
    articles = (
        _article(rationale, heading, number, article_title, article_ending)
        for number, (rationale, article_title, article_ending) in enumerate(
            zip(rationales, article_titles, article_endings, strict=True), 1
        )
    )
    return "\n".join(
        (
            head(title, style, script),
            '<body class="rationales">',
            "<main>" if titles is None else f'{lead}<main class="side">',
            index(rationales, title) if several and titles is None else "",
            *articles,
            ending,
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
    """The rationale for a notebook cell: no page, no script, no ids; scores are the titles of the words."""
    with_image = _is_image(rationale) or _has_both(rationale)
    style = asset("article.css") + (asset("image.css") if with_image else "")
    style += asset("wave.css") if _is_sound(rationale) else ""
    return f'<div class="rationales cell"><style>{style}</style>{_article(rationale, "h3", None)}</div>'


def _article(rationale: Rationale, heading: str, number: int | None, title: str | None = None, ending: str = "") -> str:
    question = f"Why <em>{display_text(rationale.question)}</em>?" if title is None else display_text(title)
    live = number is not None
    scale = scale_of(rationale)
    identity = f' id="r{number}"' if live else ""
    both = _has_both(rationale)
    kind = ' class="both"' if both else ' class="image"' if _is_image(rationale) else ""
    return "\n".join(
        (
            f"<article{identity}{kind}>",
            f"<header>{_kicker(rationale)}",
            f"<{heading}>{question}</{heading}>",
            f'<p class="result">{sentence(rationale)}</p></header>',
            *_content(rationale, scale, number),
            target_table(rationale),
            class_table(rationale, live=live),
            f'<p class="stale">{STALE}</p>' if live and not both and rationale.curve is None else "",
            ending,
            _notes(rationale),
            _list(rationale, scale) if live else "",
            _prompt(rationale),
            _provenance(rationale),
            "</article>",
        )
    )


def _content(rationale: Rationale, scale: Scale, number: int | None) -> Iterator[str]:
    """The input with its rationale, and the controls or the caption below it."""
    if _has_both(rationale):
        words = rationale.text_part
        return text_and_image.content(rationale, _legend(words, scale_of(words)))
    return (_image_content if _is_image(rationale) else _text_content)(rationale, scale, number)


def _has_both(rationale: Rationale) -> bool:
    return isinstance(rationale.units, TextAndImage)


def _is_image(rationale: Rationale) -> bool:
    return isinstance(rationale.units, Grid)


def _is_sound(rationale: Rationale) -> bool:
    return isinstance(rationale.units, Frames)


def _text_content(rationale: Rationale, scale: Scale, number: int | None) -> Iterator[str]:
    """The text, or the sound as a line of frames, and the controls or the caption below it."""
    live, has_pair = number is not None, rationale.pair is not None
    if isinstance(rationale.units, Frames):
        yield wave(rationale, rationale.units, scale, live=live)
    else:
        for text_index in range(1 + has_pair):
            yield marked(rationale, scale, text_index, live=live, several=has_pair)
    yield _controls(rationale, scale, number) if number is not None else _caption(rationale, _legend(rationale, scale))


def _image_content(rationale: Rationale, scale: Scale, number: int | None) -> Iterator[str]:
    """The image, and the controls or the caption below it."""
    yield image_view.side_by_side(rationale) if number is None else image_view.view(rationale)
    legend = image_view.legend(rationale, scale)
    yield _caption(rationale, legend) if number is None else image_view.controls(rationale, scale, number, legend)


def _kicker(rationale: Rationale) -> str:
    facts = [rationale.name, rationale.model, rationale.method]
    return f'<p class="kicker">{" · ".join(display_text(fact) for fact in facts if fact)}</p>'


def _controls(rationale: Rationale, scale: Scale, number: int) -> str:
    """The slider with the profile above it; the script reads its data from the JSON element."""
    start, slider_stops = rule_threshold(rationale, scale), stops(rationale, scale)
    numbers = np.nan_to_num(rationale.scores, posinf=scale.high, neginf=scale.low)
    data = {
        "scores": [float(np.format_float_positional(score, unique=True)) for score in numbers],
        "low": scale.low,
        "high": scale.high,
        "start": start,
        "keeps": scale.keeps,
        "unit": unit_name(rationale),
        **slider_data(rationale, scale, slider_stops),
    }
    at_start = scale.number(start)
    if rationale.selected_by == "spans":  # no threshold selects them
        at_start = data["home"] = "spans"
    if slider_stops:
        data["entered"] = selecting_stops(slider_stops, rationale.scores, rationale.selected()).tolist()
    if isinstance(rationale.units, Frames):
        data |= {"seconds": rationale.units.seconds, "duration": rationale.units.duration}
    rule = escape(rule_text(rationale))
    return f"""<div class="controls" role="group" aria-label="Threshold">
{profile(rationale, scale, start)}
<div class="row">
<label for="t{number}">Threshold</label>
{threshold_input(rationale, scale, number)}
<b class="threshold">{escape(at_start)}</b>
<output for="t{number}">{escape(selection_size(rationale))}</output>
<span class="buttons"><button type="button" class="previous" aria-label="Previous span" title="Previous span">‹</button>
<button type="button" class="next" aria-label="Next span" title="Next span">›</button>
<button type="button" class="reset" title="Back to the rule: {rule}" disabled>Reset</button></span>
</div>
{_legend(rationale, scale)}
<script type="application/json">{embedded_json(data)}</script>
</div>"""


def _caption(rationale: Rationale, legend: str) -> str:
    return f'<p class="caption">{escape(selection_size(rationale))} · {escape(rule_text(rationale))}</p>{legend}'


def _legend(rationale: Rationale, scale: Scale) -> str:
    """The colours and the scores that they stand for."""
    steps, peak = range(0, LEVELS + 1, 4), escape(scale.number(scale.peak))
    positive = "".join(f'<i class="f{step}"></i>' for step in steps)
    outlined = "<span>outlined: the rationale, in connected spans</span>" if rationale.selected_by == "spans" else ""
    if not (rationale.scores < 0).any():
        return f'<p class="legend" aria-hidden="true">score 0 {positive} {peak} {outlined}</p>'
    negative = "".join(f'<i class="a{step}"></i>' for step in reversed(steps[1:]))
    return f'<p class="legend" aria-hidden="true">score against −{peak} {negative}{positive} {peak} for {outlined}</p>'


def _notes(rationale: Rationale) -> str:
    """Warnings in a frame, then notes that only inform."""
    asides = []
    for level, look, label in (("warning", "notes", "Notes"), ("info", "notes info", "Information")):
        items = "".join(f"<li>{display_text(note.message)}</li>" for note in rationale.notes if note.level == level)
        asides.append(f'<aside class="{look}" aria-label="{label}"><ul>{items}</ul></aside>' if items else "")
    return "".join(asides)


def _list(rationale: Rationale, scale: Scale) -> str:
    """The spans as a list: for screen readers, for copying, and for finding them in a long text."""
    if _has_both(rationale):
        words, picture = rationale.text_part, rationale.image_part
        return _list(words, scale_of(words)) + image_view.region_list(picture, scale_of(picture))
    if _is_image(rationale):
        return image_view.region_list(rationale, scale)
    if _is_sound(rationale):
        spans = [(stretch.score, time_range(stretch)) for stretch in rationale.times()]
    else:
        spans = [(span.score, span.text) for span in rationale.spans()]
    items = "".join(
        f'<li><b>{escape(scale.number(score))}</b> <bdi lang="">{display_text(text)}</bdi></li>'
        for score, text in spans[:MAX_SPANS]
    )
    return f'<details class="spans"><summary>The spans as a list</summary><ol>{items}</ol></details>'


def _prompt(rationale: Rationale) -> str:
    """What a language model was asked, folded."""
    if rationale.prompt is None:
        return ""
    facts: list[tuple[str, str]] = []
    for name, value in rationale.prompt.items():
        title = name.replace("_", " ").capitalize()
        if name == "examples":
            facts += [("Example", f"{_joined_texts(text)} → {label}") for text, label in value]
        else:
            facts.append((title, "yes" if value is True else value if isinstance(value, str) else json.dumps(value)))
    return f'<details class="provenance"><summary>Prompt</summary><dl>{_items(facts)}</dl></details>'


def _joined_texts(text: str | Sequence[str]) -> str:
    return text if isinstance(text, str) else " / ".join(text)


def _items(facts: Iterable[tuple[str, str]]) -> str:
    """The entries of a list of terms."""
    return "".join(f"<dt>{display_text(name)}</dt><dd>{display_text(value)}</dd>" for name, value in facts)


def _provenance(rationale: Rationale) -> str:
    options = {name: json.dumps(value, default=str, ensure_ascii=False) for name, value in rationale.options.items()}
    facts = {
        "Method": rationale.method,
        **{f"Option {name}": value for name, value in options.items()},
        "Selected": rule_text(rationale),
        "Seed": str(rationale.seed),
        "Steps": f"{rationale.steps:,}",
        "Stopped by": rationale.stop,
        "Segments": f"{rationale.segments:,}",
        "Baseline": rationale.baseline,
        "Model": rationale.model,
        "Labels": ", ".join(rationale.labels) if not _is_image(rationale) else _labels(rationale),
        "Seconds": f"{rationale.seconds:.2f}" if rationale.seconds else "",  # a corpus run does not store it
        **{f"Version of {name}": version for name, version in rationale.versions.items()},
    }
    items = _items((name, value) for name, value in facts.items() if value)
    return f'<details class="provenance"><summary>How this was made</summary><dl>{items}</dl></details>'


def _labels(rationale: Rationale) -> str:
    """The likeliest labels of an image model, which may have a thousand."""
    labels = listed_labels(rationale)
    return ", ".join(labels) + (f" … {len(rationale.labels):,} in all" if len(labels) < len(rationale.labels) else "")
