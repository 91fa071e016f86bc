"""A rationale as HTML: a self-contained page with a threshold slider, or a fragment for notebooks.

Nothing is fetched from anywhere, and nothing of the text, the labels, the model's name or the options ever becomes
markup: all of it goes through `escape`, and the page's policy lets only its own style and script run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

import numpy as np

from rationales.rationale import Frames, Grid, Rationale
from rationales.report import viewer
from rationales.report.head import asset, footer, head
from rationales.report.marked import LEVELS, embedded_json, escape, marked
from rationales.report.profile import profile
from rationales.report.scale import Scale, scale_of, start_of
from rationales.report.wave import wave
from rationales.report.words import count, leading, percent, rows, rule, runner_up, selection, size, unit_name, when

EXCERPT = 90  # characters of a text in the index
LISTED = 200  # spans in the list under the text; page.js knows the same number


def page(rationales: Sequence[Rationale], titles: Sequence[str] | None = None, lead: str = "", name: str = "") -> str:
    """A whole page, to be opened from a file or put on a server as it is.

    With `titles`, one for each, rationales stand side by side under them, below `lead` (HTML); `name` is the page's.
    """
    style, script = asset("article.css") + asset("page.css"), asset("page.js")
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
            _index(rationales, title) if several and titles is None else "",
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
    asked = f"Why <em>{escape(rationale.question)}</em>?" if title is None else escape(title)
    live = number is not None
    scale = scale_of(rationale)
    identity = f' id="r{number}"' if live else ""
    kind = ' class="picture"' if _is_picture(rationale) else ""
    return "\n".join(
        (
            f"<article{identity}{kind}>",
            f"<header>{_kicker(rationale)}",
            f"<{heading}>{asked}</{heading}>",
            f"<p>{_sentence(rationale)}</p></header>",
            *(_shown_picture if kind else _shown_text)(rationale, scale, number),
            _probabilities(rationale),
            viewer.likeliest(rationale) if kind else "",
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
    return f'<p class="kicker">{" · ".join(escape(fact) for fact in facts if fact)}</p>'


def _sentence(rationale: Rationale) -> str:
    """The result in one sentence of plain words."""
    given = {key: by[rationale.target] for key, by in rationale.probabilities.items() if rationale.target in by}
    target = f"<em>{escape(rationale.target)}</em>"
    says = [f"The model says {target}{_strong(given, 'full', ' with ')}."]
    if not rationale.selected().any():
        return f"{says[0]} No {escape(unit_name(rationale))} reached the threshold, so nothing is marked."
    if "rationale" in given:
        says.append(
            f"Given only the marked {escape(unit_name(rationale))}s it says so{_strong(given, 'rationale', ' with ')}"
        )
        says[-1] += (
            f", given everything but them{_strong(given, 'complement', ' with ')}." if "complement" in given else "."
        )
    return " ".join(says)


def _strong(given: dict[str, float], key: str, before: str) -> str:
    return f"{before}<strong>{escape(percent(given[key]))}</strong>" if key in given else ""


def _controls(rationale: Rationale, scale: Scale, number: int) -> str:
    """The slider with the profile above it; the script reads its numbers from the JSON beside it."""
    start = start_of(rationale, scale)
    numbers = np.nan_to_num(rationale.scores, posinf=scale.high, neginf=scale.low)
    data = {
        "scores": [float(np.format_float_positional(score, unique=True)) for score in numbers],
        "low": scale.low,
        "high": scale.high,
        "start": start,
        "keeps": scale.keeps,
        "unit": unit_name(rationale),
    }
    if isinstance(rationale.units, Frames):
        data |= {"seconds": rationale.units.seconds, "duration": rationale.units.duration}
    ticks, own = LEVELS * 10, escape(rule(rationale))
    value = round(ticks * (start - scale.low) / (scale.high - scale.low))
    return f"""<section class="controls" aria-label="Threshold">
{profile(rationale, scale, start)}
<div class="row">
<label for="t{number}">Threshold</label>
<input type="range" id="t{number}" min="0" max="{ticks}" value="{min(max(value, 0), ticks)}">
<b class="threshold">{escape(scale.number(start))}</b>
<output for="t{number}">{escape(selection(rationale))}</output>
<span class="buttons"><button type="button" class="previous" aria-label="Previous span" title="Previous span">‹</button>
<button type="button" class="next" aria-label="Next span" title="Next span">›</button>
<button type="button" class="reset" title="Back to the method's own rule: {own}" disabled>Reset</button></span>
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


def _probabilities(rationale: Rationale) -> str:
    rival = runner_up(rationale)
    body = []
    for name, hint, by_label in rows(rationale):
        value = by_label.get(rationale.target)
        if value is None:
            continue
        width = f"{100 * min(max(value, 0.0), 1.0):.1f}" if math.isfinite(value) else "0"
        rect = f'<rect width="{width}" height="8"/>'
        bar = f'<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{rect}</svg>'
        other = f"<td>{escape(percent(by_label[rival]))}</td>" if rival is not None and rival in by_label else ""
        body.append(
            f'<tr><th scope="row">{escape(name)}<small>{escape(hint)}</small></th>'
            f'<td class="bar">{bar}</td><td class="value">{escape(percent(value))}</td>{other}</tr>'
        )
    if not body:
        return ""
    rival_head = f'<th scope="col">{escape(rival)}</th>' if rival is not None else ""
    return (
        '<table class="probabilities"><thead><tr><th scope="col">The model is given</th>'
        f'<th scope="col" colspan="2">{escape(rationale.target)}</th>{rival_head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def _notes(rationale: Rationale) -> str:
    if not rationale.notes:
        return ""
    items = "".join(f"<li>{escape(note.message)}</li>" for note in rationale.notes)
    return f'<aside class="notes" aria-label="Notes"><ul>{items}</ul></aside>'


def _list(rationale: Rationale, scale: Scale) -> str:
    """The spans without the text around them: for reading aloud, for copying, and for finding them in a long text."""
    if _is_picture(rationale):
        return viewer.region_list(rationale, scale)
    if _is_sound(rationale):
        found = [(one.score, when(one)) for one in rationale.times()]
    else:
        found = [(span.score, span.text) for span in rationale.spans()]
    items = "".join(
        f'<li><b>{escape(scale.number(score))}</b> <bdi lang="">{escape(text)}</bdi></li>'
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
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items() if value)
    return f'<details class="provenance"><summary>How this was made</summary><dl>{items}</dl></details>'


def _labels(rationale: Rationale) -> str:
    """The labels of an image model, which may have a thousand."""
    shown = leading(rationale)
    return ", ".join(shown) + (f" … {len(rationale.labels):,} in all" if len(shown) < len(rationale.labels) else "")


def _index(rationales: Sequence[Rationale], title: str) -> str:
    items = []
    for number, rationale in enumerate(rationales, 1):
        words = " ".join((size(rationale) or rationale.text[: 4 * EXCERPT]).split())
        shown = words if len(words) <= EXCERPT else words[:EXCERPT].rsplit(" ", 1)[0] + " …"
        value = rationale.probabilities.get("full", {}).get(rationale.target)
        items.append(
            f'<li><a href="#r{number}"><em>{escape(rationale.target)}</em> '
            f"<b>{escape(percent(value)) if value is not None else ''}</b> "
            f'<bdi lang="">{escape(rationale.name or shown)}</bdi></a></li>'
        )
    return f'<nav aria-label="Index"><h1>{escape(title)}</h1><ol>{"".join(items)}</ol></nav>'
