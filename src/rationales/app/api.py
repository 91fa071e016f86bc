"""The HTTP API: three functions with plain arguments, which Gradio puts under /gradio_api/call/NAME."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from rationales.app.explaining import VisitorRequest
from rationales.app.jobs import Job
from rationales.app.service import ExplainService, result_data
from rationales.errors import RationalesError

POLL = 0.05  # seconds between looks at a running job


async def wait_for(job: Job) -> list[Any]:
    """The results of a job; where the caller goes away, the job is stopped."""
    try:
        while not job.finished:
            await asyncio.sleep(POLL)
    finally:
        job.cancel()
    return job.outcome()


def api_functions(service: ExplainService, visible_error: Callable[[str], Exception]) -> dict[str, Callable[..., Any]]:
    """Name -> function. `visible_error` makes the exception whose message the client sees."""

    async def explain(
        model: str = "embedded",
        text: str = "",
        methods: list[str] = ["marc"],  # noqa: B006  # read only; Gradio shows it as the default
        target: str = "",
        upload: str = "",
        pair: str = "",
        seed: int = 0,
        steps: int = 0,
    ) -> dict[str, Any]:
        """Explain a text, or an image or sound in `upload` (base64), with up to four methods.

        `target` is a label; empty for the predicted class. `steps` is for methods that optimise; 0 for their default.
        Returns the rationales as `Rationale.to_dict` has them in `results`, and how far the methods agree.
        """
        request = VisitorRequest(model, text, pair, upload, methods, target, seed, steps or None)
        caller = uuid.uuid4().hex
        try:
            prepared = await asyncio.to_thread(service.prepare, request)
            job = service.start(caller, prepared)
            try:
                return result_data(await wait_for(job))
            finally:
                service.jobs.end(caller, job)
        except RationalesError as error:
            raise visible_error(str(error)) from None

    async def probabilities(
        model: str = "embedded",
        text: str = "",
        removed: list[int] = [],  # noqa: B006  # read only
        upload: str = "",
        pair: str = "",
    ) -> dict[str, Any]:
        """The model's probabilities for the input, and with the parts numbered in `removed` replaced by the baseline.

        The parts of a text are its words, listed in `units`; those of an image or a sound are the `cells`, row by row.
        """
        request = VisitorRequest(model, text, pair, upload)
        try:
            return await asyncio.to_thread(service.probabilities, request, removed)
        except RationalesError as error:
            raise visible_error(str(error)) from None

    async def batch(
        table: str, model: str = "embedded", method: str = "marc", column: str = ""
    ) -> list[dict[str, Any]]:
        """Explain the texts in a column of a CSV table (base64); returns a rationale for each row."""
        caller = uuid.uuid4().hex
        try:
            job = await asyncio.to_thread(service.start_table, caller, model, table, column, method)
            try:
                return [rationale.to_dict() for rationale in await wait_for(job)]
            finally:
                service.jobs.end(caller, job)
        except RationalesError as error:
            raise visible_error(str(error)) from None

    return {"explain": explain, "probabilities": probabilities, "batch": batch}
