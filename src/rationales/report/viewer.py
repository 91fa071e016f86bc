"""The picture of a rationale as HTML: live on a page, side by side in a notebook. The script is picture.js."""

from __future__ import annotations

import numpy as np

from rationales.rationale import Rationale
from rationales.report.marked import embedded_json, escape
from rationales.report.picture import (
    DIM,
    FADE,
    OPACITY,
    PALE,
    canvas,
    captions,
    data_uri,
    enlargement,
    finite,
    grid_of,
    ramp,
)
from rationales.report.scale import Scale, start_of
from rationales.report.stops import TICKS, entered, slider_data, stops, threshold_input
from rationales.report.words import box, count, percent, rule, selection, whole

LONGEST = 768  # pixels of the long side on a page
SHADES = 33  # steps of colour in the legend
LISTED = 200  # regions in the list under the picture


def view(rationale: Rationale) -> str:
    """The picture under its heat map; without a script a still of the two."""
    drawn = canvas(rationale, LONGEST, LONGEST)
    height, width = drawn.chosen.shape
    lossless = enlargement(grid_of(rationale), LONGEST) > 1  # few colours in large squares: smaller, and sharp
    size = f'width="{width}" height="{height}"'
    name = escape(rationale.name or "The picture")
    return f"""<div class="view" tabindex="0" role="group" aria-label="Picture; arrow keys move over it">
<img class="still" {size} alt="{name}, its scores as a heat map" src="{data_uri(drawn.heat(outline=True), lossless)}">
<img class="photo" {size} alt="{name}" src="{data_uri(drawn.original, lossless)}">
<i class="here" hidden></i>
</div>{_missing(rationale)}"""


def side_by_side(rationale: Rationale) -> str:
    """Original, heat map and cut-out as they are in the PNG, without a script."""
    drawn = canvas(rationale)
    lossless = enlargement(grid_of(rationale), LONGEST) > 1
    figures = "".join(
        f'<figure><img alt="{escape(caption)}" src="{data_uri(pixels, lossless)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
        for pixels, caption in zip((drawn.original, drawn.heat(), drawn.cutout()), captions(rationale), strict=True)
    )
    return f'<div class="panels">{figures}</div>'


def controls(rationale: Rationale, scale: Scale, number: int, legend: str) -> str:
    """The sliders; the script reads its numbers and the scores from the JSON beside them."""
    start = start_of(rationale, scale)
    percents = round(100 * OPACITY)
    return f"""<section class="controls" aria-label="Opacity and threshold">
<div class="row">
<label for="o{number}">Heat map</label>
<input type="range" class="opacity" id="o{number}" min="0" max="100" value="{percents}">
<b class="percents">{percents} %</b>
<span class="buttons"><button type="button" class="cutout" aria-pressed="false">Cut-out</button></span>
</div>
<div class="row">
<label for="t{number}">Threshold</label>
{threshold_input(rationale, scale, number)}
<b class="threshold">{escape(scale.number(start))}</b>
<span class="buttons"><button type="button" class="reset" title="Back to the rule: {escape(rule(rationale))}" disabled>\
Reset</button></span>
</div>
<p class="caption"><output for="t{number}">{escape(selection(rationale))}</output></p>
{legend}
<script type="application/json">{embedded_json(data(rationale, scale))}</script>
</section>"""


def data(rationale: Rationale, scale: Scale) -> dict[str, object]:
    """What the script needs. The scores are an 8-bit grey PNG that runs from `least` to `most`."""
    grid, values = grid_of(rationale), finite(rationale, scale)
    least, most = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    drawn = canvas(rationale, LONGEST, 1)  # never enlarged: the script does that
    grey = np.rint(255 * (drawn.scores.astype(np.float64) - least) / ((most - least) or 1.0)).clip(0, 255)
    shown = np.linspace(least, most, 256)  # the score of each grey
    colours = ramp(scale.strength(shown))
    ticks = scale.low + (scale.high - scale.low) * np.arange(TICKS + 1) / TICKS
    above = len(values) - np.searchsorted(np.sort(values), ticks.astype(np.float32), side="right")
    stopping = stops(rationale, scale)
    levels = entered(stopping, drawn.scores, drawn.chosen > 0).astype(np.uint8)  # a PNG of few greys
    return {
        **slider_data(rationale, scale, stopping),
        **({"entered": data_uri(levels, lossless=True)} if stopping else {}),
        "scores": data_uri(grey.astype(np.uint8), lossless=True),
        "own": data_uri(drawn.chosen, lossless=True),
        "least": least,
        "most": most,
        "low": scale.low,
        "high": scale.high,
        "start": start_of(rationale, scale),
        "keeps": scale.keeps,
        "height": grid.height,
        "width": grid.width,
        "counts": above.tolist(),  # pixels above each step of the threshold, exact where the PNG is rounded
        "colours": np.rint(colours[:, :3]).astype(int).tolist(),
        "opacity": np.round(colours[:, 3].astype(np.float64), 3).tolist(),
        "dim": DIM,
        "pale": PALE,
        "fade": FADE,
    }


def legend(rationale: Rationale, scale: Scale) -> str:
    """The colours as they look over a middling grey, and the numbers they stand for."""
    signed, peak = bool((rationale.scores < 0).any()), escape(scale.number(scale.peak))
    colours = ramp(np.linspace(-1.0 if signed else 0.0, 1.0, SHADES))
    alpha = OPACITY * colours[:, 3:]
    mixed = np.rint(colours[:, :3] * alpha + 128 * (1 - DIM * OPACITY) * (1 - alpha)).astype(int)
    shades = "".join(
        f'<rect x="{place}" width="1.1" height="1" fill="#{red:02x}{green:02x}{blue:02x}"/>'
        for place, (red, green, blue) in enumerate(mixed.tolist())
    )
    before, after = (f"against −{peak}", f"{peak} for") if signed else ("0", peak)
    shape = f'viewBox="0 0 {SHADES} 1" preserveAspectRatio="none" shape-rendering="crispEdges"'
    drawn = f'<svg class="shades" {shape}>{shades}</svg>'
    return f'<p class="legend" aria-hidden="true">{before} {drawn} {after}</p>'


def region_list(rationale: Rationale, scale: Scale) -> str:
    """The regions of the method's own rule, for reading aloud and for copying."""
    regions, grid, total = rationale.regions(), grid_of(rationale), max(len(rationale.units), 1)
    items = "".join(
        f"<li><b>{escape(scale.number(region.score))}</b> "
        f"<bdi>{escape(percent(region.area / total))} of the {whole(rationale)}, {escape(box(region, grid))}</bdi></li>"
        for region in regions[:LISTED]
    )
    more = len(regions) - LISTED
    rest = f"<li>and {escape(count(more, 'region'))} more</li>" if more > 0 else ""
    return f'<details class="spans"><summary>The regions as a list</summary><ol>{items}{rest}</ol></details>'


def _missing(rationale: Rationale) -> str:
    if rationale.picture is not None:
        return ""
    return '<p class="caption">The picture itself was not saved with the scores: grey stands in for it.</p>'
