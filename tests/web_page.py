"""The web page in a browser: what the tests of it do on the page."""

from __future__ import annotations

from typing import Any

WAIT = 60_000  # milliseconds, for a busy machine


def choose(page: Any, label: str, *names: str) -> None:
    """Choose entries of a dropdown by typing; of one with several, all earlier entries are removed first."""
    box = page.get_by_label(label, exact=False).first
    box.click()
    for name in names:
        box.fill(name)
        page.get_by_role("option", name=name, exact=True).first.click()
    page.keyboard.press("Escape")


def explain(page: Any) -> None:
    """Explain the input of the page, and wait for the result."""
    page.locator("#explain").click()
    page.locator("#after").wait_for(state="hidden")
    page.locator("#after").wait_for(state="visible")


def result(page: Any) -> Any:
    """The frame with the rationales."""
    return page.frame_locator("iframe.result").first


def joins(requests: list[str]) -> int:
    """How many of the addresses asked the server to compute."""
    return sum("queue/join" in url for url in requests)


def write_text(page: Any, text: str) -> None:
    """Fill the box of the text."""
    page.locator("#text textarea").fill(text)
