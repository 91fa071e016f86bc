"""The tab Explain: an input, a model, methods; rationales side by side, and Edit and see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gradio

from rationales.app.editing import EditableInput
from rationales.app.examples import TrialInput, examples
from rationales.app.explaining import PREDICTED, VisitorRequest
from rationales.app.limits import MAX_METHODS, MAX_STEPS
from rationales.app.service import ExplainService
from rationales.app.views.assets import component_script
from rationales.app.views.edit_panel import edit_panel, edited_view
from rationales.app.views.messages import message, progress_bar, waiting
from rationales.app.views.result_page import frame, result_page
from rationales.app.web.events import (
    AT_ONCE,
    HIDDEN,
    MODEL_QUEUE,
    OFF,
    ON,
    POLL,
    QUICK_QUEUE,
    cancel_button,
    download_buttons,
    visitor_of,
)
from rationales.app.web.widgets import IMAGE_TYPES, SOUND_TYPES, plain_html, result_frame, upload_box
from rationales.errors import RationalesError
from rationales.rationale import Rationale

FILES = {"html": "Page (HTML)", "picture": "Picture (PNG, SVG)", "json": "Data (JSON)"}
EDIT_HEADING = (
    '<div class="section"><h2>Edit and see</h2><p>Click words off, or draw over parts of an image or a sound, and see '
    "what the model makes of the rest.</p></div>"
)


@dataclass(frozen=True, eq=False)
class ExplainInputs:
    """The components on top of the tab."""

    model: Any
    text: Any
    pair: Any
    image: Any
    sound: Any
    target: Any
    methods: Any
    seed: Any
    steps: Any
    examples: Sequence[tuple[Any, TrialInput]]
    go: Any
    stop: Any

    @property
    def request_fields(self) -> list[Any]:
        """In the order of the arguments of `visitor_request`."""
        return [
            *(self.model, self.text, self.pair, self.image, self.sound),
            *(self.target, self.methods, self.seed, self.steps),
        ]


def explain_tab(service: ExplainService) -> None:
    """Build the tab; call inside a Blocks context."""
    inputs = _inputs(service)
    progress = plain_html("", elem_id="progress")
    result = result_frame()
    with gradio.Column(visible=False, elem_id="after") as after:
        download_buttons(service.download, FILES)
        plain_html(EDIT_HEADING)
        with gradio.Row(equal_height=False):
            with gradio.Column(scale=3, min_width=320):
                panel = plain_html("", js_on_load=component_script("edit.js"), elem_id="edit")
            with gradio.Column(scale=2, min_width=300):
                edited = plain_html("", elem_id="edited")

    started = inputs.go.click(lambda: (waiting(), ON), None, [progress, inputs.stop], **AT_ONCE)
    work = started.then(
        _explaining(service),
        inputs.request_fields,
        [progress, result, after, panel, edited, inputs.go, inputs.stop],
        concurrency_id=MODEL_QUEUE,
        concurrency_limit=1,
        **HIDDEN,
    )

    cancel_button(service.jobs, inputs.stop, [progress, inputs.go, inputs.stop], work)
    quick = {"concurrency_id": QUICK_QUEUE, "concurrency_limit": 4, "trigger_mode": "always_last"}
    panel.edit(_editing(service), None, edited, **quick, **HIDDEN)
    _choosing(service, inputs)


def _inputs(service: ExplainService) -> ExplainInputs:
    first, max_bytes = service.choices.get(service.choices.titles[0]), service.limits.upload_bytes
    with gradio.Row(equal_height=False):
        with gradio.Column(scale=3, min_width=320):
            text = gradio.Textbox(
                label="Text",
                lines=8,
                max_lines=18,
                placeholder="Type or paste a text",
                visible=first.noun == "text",
                elem_id="text",
            )
            image = upload_box("image", IMAGE_TYPES, max_bytes, "img", visible=first.noun == "image", elem_id="image")
            sound = upload_box("sound", SOUND_TYPES, max_bytes, "audio", visible=first.noun == "sound", elem_id="sound")
            with gradio.Row(elem_classes="examples"):
                plain_html("<span>Try</span>", elem_classes="try")
                buttons = [(gradio.Button(example.title, size="sm"), example) for example in examples(service.choices)]
        with gradio.Column(scale=2, min_width=300):
            model = gradio.Dropdown(service.choices.titles, value=first.title, label="Model", elem_id="model")
            target = gradio.Dropdown(
                [PREDICTED, *first.model.labels], value=PREDICTED, label="Class to explain", elem_id="target"
            )
            methods = gradio.Dropdown(
                first.methods,
                value=first.default_methods,
                multiselect=True,
                max_choices=MAX_METHODS,
                label=f"Methods, up to {MAX_METHODS}",
                elem_id="methods",
            )
            with gradio.Accordion("More", open=False):
                pair = gradio.Textbox(label="Second text, for models of pairs", lines=2, max_lines=6)
                label = "Steps of methods that optimise; 0 for their own"
                steps = gradio.Number(0, label=label, minimum=0, maximum=MAX_STEPS, precision=0, elem_id="steps")
                seed = gradio.Number(0, label="Seed", minimum=0, precision=0)
            with gradio.Row():
                go = gradio.Button("Explain", variant="primary", elem_id="explain", min_width=120)
                stop = gradio.Button("Cancel", interactive=False, elem_id="cancel", min_width=100)
    return ExplainInputs(model, text, pair, image, sound, target, methods, seed, steps, buttons, go, stop)


def _explaining(service: ExplainService) -> Callable[..., AsyncIterator[tuple[Any, ...]]]:
    """The event of the button Explain: a progress bar, each rationale when it is there, and what can be edited."""

    def unchanged(text: str) -> tuple[Any, ...]:
        return (text, *[gradio.skip()] * 4, ON, OFF)

    async def explain_input(  # one argument for each component
        model: str, text: str, pair: str, image: str, sound: str, target: str, methods: list[str], seed: int,
        steps: int, request: gradio.Request,
    ) -> AsyncIterator[tuple[Any, ...]]:  # fmt: skip
        visitor, shown_count = visitor_of(request), 0
        is_sound = model in service.choices.titles and service.choices.noun(model) == "sound"
        upload = sound if is_sound else image
        try:
            request_fields = visitor_request(model, text, pair, upload, target, methods, seed, steps)
            prepared = await asyncio.to_thread(service.prepare, request_fields)
        except RationalesError as error:
            yield unchanged(message(str(error)))
            return
        job = service.start(visitor, prepared)
        try:
            while not job.finished:
                page: Any = gradio.skip()
                if len(job.results) > shown_count:
                    shown_count = len(job.results)
                    page = await asyncio.to_thread(framed_result, job.results[:shown_count])
                yield progress_bar(job), page, gradio.update(visible=False), gradio.skip(), gradio.skip(), OFF, ON
                await asyncio.sleep(POLL)
            rationales = job.outcome()
            editable = await asyncio.to_thread(service.keep_results, visitor, prepared, rationales)
            page = await asyncio.to_thread(framed_result, rationales)
            words, before = edit_panel(editable, rationales[0]), rationales[0].probabilities["full"]
            table = edited_view(before, before, rationales[0].target, 0, part_noun(editable))
            problems = "".join(map(message, job.problems))
            yield problems, page, gradio.update(visible=True), words, table, ON, OFF
        except RationalesError as error:
            yield unchanged(message(str(error), "status" if job.cancelled else "error"))
        finally:
            service.jobs.end(visitor, job)

    return explain_input


def _editing(service: ExplainService) -> Callable[..., str]:
    """The event of a click on a word or a stroke over an image."""

    def edit(event: gradio.EventData, request: gradio.Request) -> str:
        try:
            removed = list(event.removed)
            results, probabilities = service.edit(visitor_of(request), removed)
        except RationalesError as error:
            return message(str(error))
        first, noun = results.rationales[0], "part" if results.editable is None else part_noun(results.editable)
        return edited_view(first.probabilities["full"], probabilities, first.target, len(set(removed)), noun)

    return edit


def _choosing(service: ExplainService, inputs: ExplainInputs) -> None:
    """A new model shows its inputs, classes and methods; an example fills the inputs."""

    def choose(title: str) -> tuple[Any, ...]:
        served = service.choices.get(title)
        return (
            *(gradio.update(visible=served.noun == noun) for noun in ("text", "image", "sound")),
            gradio.update(choices=[PREDICTED, *served.model.labels], value=PREDICTED),
            gradio.update(choices=served.methods, value=served.default_methods),
        )

    changed = [inputs.text, inputs.image, inputs.sound, inputs.target, inputs.methods]
    inputs.model.change(choose, inputs.model, changed, **HIDDEN)

    def filled(example: TrialInput) -> Callable[[], tuple[Any, ...]]:
        def values() -> tuple[Any, ...]:
            upload = gradio.skip() if example.upload is None else example.upload()
            return example.model, example.text or gradio.skip(), upload

        return values

    for button, example in inputs.examples:
        button.click(filled(example), None, [inputs.model, inputs.text, inputs.image], **HIDDEN)


def visitor_request(
    model: Any, text: Any, pair: Any, upload: Any, target: Any, methods: Any, seed: Any, steps: Any
) -> VisitorRequest:
    """The request in the values of the components, any of which may be None."""
    return VisitorRequest(
        model=str(model or ""),
        text=str(text or ""),
        pair=str(pair or ""),
        upload=str(upload or ""),
        methods=tuple(map(str, methods or ())),
        target=str(target or ""),
        seed=int(seed or 0),
        steps=int(steps) if steps else None,
    )


def framed_result(rationales: Sequence[Rationale]) -> str:
    """The page of the results in its frame."""
    return frame(result_page(rationales, framed=True), f"Why {rationales[0].question}?")


def part_noun(editable: EditableInput) -> str:
    """What is taken out: a word, or a cell of an image or a sound."""
    return editable.served.model.unit if editable.cells is None else "cell"
