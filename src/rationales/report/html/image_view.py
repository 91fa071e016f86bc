"""The rationale of an image as HTML: live on a page (see image.js), side by side in a notebook."""

from __future__ import annotations

import numpy as np

from rationales.rationale import Rationale
from rationales.report import canvas
from rationales.report.html.marked_text import embedded_json, escape
from rationales.report.html.slider import TICKS, selecting_stops, slider_data, stops, threshold_input
from rationales.report.scale import Scale, rule_threshold
from rationales.report.wording import count, input_noun, percent, region_bounds, rule_text, selection_size

MAX_SIDE = 768  # pixels of the longer side on a page
SHADES = 33  # steps of colour in the legend
MAX_REGIONS = 200  # in the list below the image


def view(rationale: Rationale) -> str:
    """The image under its heat map; without a script a still of both."""
    enlarged = canvas.canvas(rationale, MAX_SIDE, MAX_SIDE)
    height, width = enlarged.selected.shape
    # few colours in large squares: PNG is smaller than JPEG, and sharp
    lossless = canvas.enlargement(canvas.grid_of(rationale), MAX_SIDE) > 1
    size = f'width="{width}" height="{height}"'
    name = escape(rationale.name or "The image")
    still = canvas.data_uri(enlarged.heat(outline=True), lossless)
    return f"""<div class="view" tabindex="0" role="group" aria-label="Image; arrow keys move over it">
<img class="still" {size} alt="{name}, its scores as a heat map" src="{still}">
<img class="photo" {size} alt="{name}" src="{canvas.data_uri(enlarged.original, lossless)}">
<i class="here" hidden></i>
</div>{_missing(rationale)}"""


def side_by_side(rationale: Rationale) -> str:
    """Original, heat map and cut-out as they are in the PNG, without a script."""
    panels = canvas.canvas(rationale)
    images = (panels.original, panels.heat(), panels.cutout())
    lossless = canvas.enlargement(canvas.grid_of(rationale), MAX_SIDE) > 1
    figures = "".join(
        f'<figure><img alt="{escape(caption)}" src="{canvas.data_uri(pixels, lossless)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
        for pixels, caption in zip(images, canvas.captions(rationale), strict=True)
    )
    return f'<div class="panels">{figures}</div>'


def controls(rationale: Rationale, scale: Scale, number: int, legend: str) -> str:
    """The sliders; the script reads its numbers and the scores from the JSON beside them."""
    start = rule_threshold(rationale, scale)
    percents, rule = round(100 * canvas.OPACITY), escape(rule_text(rationale))
    return f"""<div class="controls" role="group" aria-label="Opacity and threshold">
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
<span class="buttons"><button type="button" class="reset" title="Back to the rule: {rule}" disabled>\
Reset</button></span>
</div>
<p class="caption"><output for="t{number}">{escape(selection_size(rationale))}</output></p>
{legend}
<script type="application/json">{embedded_json(script_data(rationale, scale))}</script>
</div>"""


def script_data(rationale: Rationale, scale: Scale) -> dict[str, object]:
    """The data for the script. The scores are an 8-bit grey PNG from `lowest` to `highest`."""
    grid, values = canvas.grid_of(rationale), canvas.finite(rationale, scale)
    lowest, highest = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    reduced = canvas.canvas(rationale, MAX_SIDE, 1)  # never enlarged: the script does that
    grey = np.rint(255 * (reduced.scores.astype(np.float64) - lowest) / ((highest - lowest) or 1.0)).clip(0, 255)
    grey_scores = np.linspace(lowest, highest, 256)
    colours = canvas.ramp(scale.strength(grey_scores))
    ticks = scale.low + (scale.high - scale.low) * np.arange(TICKS + 1) / TICKS
    above = len(values) - np.searchsorted(np.sort(values), ticks.astype(np.float32), side="right")
    slider_stops = stops(rationale, scale)
    levels = selecting_stops(slider_stops, reduced.scores, reduced.selected > 0).astype(np.uint8)  # few greys
    return {
        **slider_data(rationale, scale, slider_stops),
        **({"entered": canvas.data_uri(levels, lossless=True)} if slider_stops else {}),
        "scores": canvas.data_uri(grey.astype(np.uint8), lossless=True),
        "rule_selection": canvas.data_uri(reduced.selected, lossless=True),
        "lowest": lowest,
        "highest": highest,
        "low": scale.low,
        "high": scale.high,
        "start": rule_threshold(rationale, scale),
        "keeps": scale.keeps,
        "height": grid.height,
        "width": grid.width,
        "counts": above.tolist(),  # pixels above each tick of the threshold; exact, while the PNG is rounded
        "colours": np.rint(colours[:, :3]).astype(int).tolist(),
        "opacity": np.round(colours[:, 3].astype(np.float64), 3).tolist(),
        "dim": canvas.DIM,
        "pale": canvas.PALE,
        "fade": canvas.FADE,
    }


def legend(rationale: Rationale, scale: Scale) -> str:
    """The colours over a medium grey with the scores that they stand for."""
    signed, peak = bool((rationale.scores < 0).any()), escape(scale.number(scale.peak))
    colours = canvas.ramp(np.linspace(-1.0 if signed else 0.0, 1.0, SHADES))
    alpha = canvas.OPACITY * colours[:, 3:]
    mixed = np.rint(colours[:, :3] * alpha + 128 * (1 - canvas.DIM * canvas.OPACITY) * (1 - alpha)).astype(int)
    shades = "".join(
        f'<rect x="{step}" width="1.1" height="1" fill="#{red:02x}{green:02x}{blue:02x}"/>'
        for step, (red, green, blue) in enumerate(mixed.tolist())
    )
    before, after = (f"against −{peak}", f"{peak} for") if signed else ("0", peak)
    shape = f'viewBox="0 0 {SHADES} 1" preserveAspectRatio="none" shape-rendering="crispEdges"'
    bar = f'<svg class="shades" {shape}>{shades}</svg>'
    return f'<p class="legend" aria-hidden="true">{before} {bar} {after}</p>'


def region_list(rationale: Rationale, scale: Scale) -> str:
    """The regions of the rationale as a list, for screen readers and for copying."""
    regions, grid, total = rationale.regions(), canvas.grid_of(rationale), max(len(rationale.units), 1)
    items = "".join(
        f"<li><b>{escape(scale.number(region.score))}</b> "
        f"<bdi>{escape(percent(region.area / total))} of the {input_noun(rationale)}, "
        f"{escape(region_bounds(region, grid))}</bdi></li>"
        for region in regions[:MAX_REGIONS]
    )
    unlisted = len(regions) - MAX_REGIONS
    ending = f"<li>and {escape(count(unlisted, 'region'))} more</li>" if unlisted > 0 else ""
    return f'<details class="spans"><summary>The regions as a list</summary><ol>{items}{ending}</ol></details>'


def _missing(rationale: Rationale) -> str:
    if rationale.image is not None:
        return ""
    return '<p class="caption">The image itself was not saved with the scores: grey stands in for it.</p>'
