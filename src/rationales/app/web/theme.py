"""The colours and fonts of the web page: those of the page of a rationale, and fonts of the system only."""

from __future__ import annotations

from typing import Any

FONTS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "sans-serif")
MONOSPACE = ("ui-monospace", "SF Mono", "Menlo", "Consolas", "monospace")
# name of Gradio's variable -> light, dark; the colours of report/html/assets/article.css
COLOURS = {
    "body_background_fill": ("#faf8f4", "#141518"),
    "body_text_color": ("#1d2126", "#e9e6df"),
    "body_text_color_subdued": ("#646a73", "#a0a3aa"),
    "background_fill_primary": ("#ffffff", "#1b1d21"),
    "background_fill_secondary": ("#faf8f4", "#141518"),
    "block_background_fill": ("#ffffff", "#1b1d21"),
    "block_border_color": ("#e4e0d8", "#33363c"),
    "border_color_primary": ("#e4e0d8", "#33363c"),
    "border_color_accent": ("#c2730a", "#eba83f"),
    "block_label_text_color": ("#4d535b", "#a0a3aa"),
    "block_title_text_color": ("#1d2126", "#e9e6df"),
    "block_info_text_color": ("#646a73", "#a0a3aa"),
    "input_background_fill": ("#ffffff", "#1b1d21"),
    "input_border_color": ("#d3cec3", "#3f434a"),
    "input_border_color_focus": ("#c2730a", "#eba83f"),
    "input_placeholder_color": ("#6f757d", "#8f939b"),
    "button_primary_background_fill": ("#9a5b00", "#eba83f"),
    "button_primary_background_fill_hover": ("#7f4b00", "#f0b757"),
    "button_primary_text_color": ("#ffffff", "#1b1d21"),
    "button_primary_border_color": ("#9a5b00", "#eba83f"),
    "button_secondary_background_fill": ("#ffffff", "#1b1d21"),
    "button_secondary_background_fill_hover": ("#fdf3e0", "#2b2417"),
    "button_secondary_text_color": ("#1d2126", "#e9e6df"),
    "button_secondary_border_color": ("#d3cec3", "#3f434a"),
    "color_accent": ("#9a5b00", "#f0b757"),
    "color_accent_soft": ("#fdf3e0", "#2b2417"),
    "link_text_color": ("#9a5b00", "#f0b757"),
}
SHADOWLESS = ("block_shadow", "input_shadow", "input_shadow_focus", "button_primary_shadow", "button_secondary_shadow")


def theme() -> Any:
    """Gradio's base theme in our colours."""
    import gradio

    base = gradio.themes.Base(font=FONTS, font_mono=MONOSPACE, radius_size="lg", spacing_size="lg")
    values: dict[str, str] = {}
    for name, (light, dark) in COLOURS.items():
        values[name] = light
        if name != "color_accent":  # which has no dark variant
            values[f"{name}_dark"] = dark
    for name in SHADOWLESS:
        values[name] = "none"
    return base.set(**values)
