"""The web page in a browser: what the tests of it do on the page."""

from __future__ import annotations

from typing import Any

WAIT = 60_000  # milliseconds, for a busy machine
CHECK_INTERVAL, SETTLED_CHECKS = 150, 4  # milliseconds between two looks at the page, and how many must agree


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
    settle(page)


def settle(page: Any) -> None:
    """Wait until the page keeps its height: a result grows while it is loaded, and nothing may move below the pointer.

    The browser lays a frame out when it can be seen, so that the end of the page is scrolled into view first.
    """
    page.locator("#after").scroll_into_view_if_needed()
    height, unchanged = -1, 0
    while unchanged < SETTLED_CHECKS:
        page.wait_for_timeout(CHECK_INTERVAL)
        measured = page.evaluate("document.documentElement.scrollHeight")
        height, unchanged = measured, unchanged + 1 if measured == height else 0


def result(page: Any) -> Any:
    """The frame with the rationales."""
    return page.frame_locator("iframe.result").first


def joins(requests: list[str]) -> int:
    """How many of the addresses asked the server to compute."""
    return sum("queue/join" in url for url in requests)


def write_text(page: Any, text: str) -> None:
    """Fill the box of the text."""
    page.locator("#text textarea").fill(text)
