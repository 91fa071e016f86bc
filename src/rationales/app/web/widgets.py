"""Parts of the page that Gradio does not have: uploads that become strings, and files that are saved in the browser."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

from rationales.app.downloads import Download
from rationales.app.views.assets import app_asset
from rationales.report.html.marked_text import escape

IMAGE_TYPES = "image/png,image/jpeg,image/webp,image/gif,image/bmp,image/tiff"
SOUND_TYPES = "audio/*,.wav,.flac,.ogg"


def upload_box(noun: str, accept: str, max_bytes: int, preview: str, **options: Any) -> Any:
    """A box to choose or drop a file; its value is a data URL. `preview`: img, audio or none."""
    article = "an" if noun[0] in "aeiou" else "a"
    template = (
        f'<div class="upload" data-noun="{escape(noun)}" data-preview="{preview}" data-bytes="{max_bytes}">'
        f'<label><span class="title">{escape(noun.capitalize())}</span>'
        f'<span class="hint">Drop {article} {escape(noun)} here, or click to choose a file</span>'
        f'<input type="file" accept="{escape(accept)}"></label>'
        '<div class="preview"></div><p class="name" role="status"></p>'
        '<button type="button" class="clear" hidden>Remove</button></div>'
    )
    return plain_html(
        "",
        html_template=template,
        js_on_load=app_asset("upload.js"),
        **options,
    )


def plain_html(content: str, **options: Any) -> Any:
    """HTML without Gradio's style."""
    import gradio

    return gradio.HTML(content, apply_default_css=False, **options)


def result_frame() -> Any:
    """The element that shows a result."""
    return plain_html("", js_on_load=app_asset("result.js"), elem_classes="frame")


def saver() -> Any:
    """An element without a look that saves the file in its value; see `saved`."""
    return plain_html("", html_template="", js_on_load=app_asset("save.js"), elem_classes="saver")


def saved(file: Download) -> str:
    """The value with which a `saver` saves `file`; no two are equal, so that the same file can be saved again."""
    content = base64.b64encode(file.content).decode()
    return json.dumps({"name": file.name, "type": file.media_type, "content": content, "at": time.time_ns()})
