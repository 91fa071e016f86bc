"""Two visitors at once in two browsers, and a sound: what a visitor sends reaches that visitor alone."""

from __future__ import annotations

import base64
import json
import re
import time

import httpx
import pytest
from browser import chromium
from web_page import WAIT, choose, explain, result, settle, write_text
from web_samples import wav

playwright_api = pytest.importorskip("playwright.sync_api", reason="the tests of the page need playwright")

SECRETS = {"anna": "Marmalade is a dull film.", "ben": "Gooseberry is a good film."}
FORGET_SECONDS = 60  # after a page was closed, on a busy machine


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened_browser:
        yield opened_browser


@pytest.fixture
def visitors(browser, server):
    """Pages of two visitors, by name; each browser has its own cookies and storage."""
    playwright_api.expect.set_options(timeout=WAIT)
    contexts = {name: browser.new_context(viewport={"width": 1280, "height": 1400}) for name in SECRETS}
    pages = {}
    for name, context in contexts.items():
        pages[name] = context.new_page()
        pages[name].set_default_timeout(WAIT)
        pages[name].goto(server[0])
        pages[name].locator("#explain").wait_for()
    yield pages
    for context in contexts.values():
        context.close()


def downloaded(page, button, folder):
    with page.expect_download() as download:
        page.get_by_role("button", name=button).first.click()
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    return file.read_text(encoding="utf-8")


def test_two_visitors_see_and_download_their_own_results(visitors, tmp_path):
    for name, page in visitors.items():
        write_text(page, SECRETS[name])
    for page in visitors.values():
        page.locator("#explain").click()  # the second waits for the first
    for page in visitors.values():
        page.locator("#after").wait_for(state="visible")
        settle(page)
    for name, page in visitors.items():
        secret_of_neighbour = next(text for visitor, text in SECRETS.items() if visitor != name).split()[0]
        playwright_api.expect(result(page).locator("article .text").first).to_have_text(SECRETS[name])
        for button in ("Page (HTML)", "Data (JSON)"):
            content = downloaded(page, button, tmp_path)
            assert SECRETS[name].split()[0] in content
            assert secret_of_neighbour not in content
        page.locator('#edit [data-part="0"]').click()
        playwright_api.expect(page.locator("#edited .what")).to_have_text("1 word taken out")
        assert secret_of_neighbour not in page.content()


def test_another_session_gets_nothing_from_the_events_of_the_page(visitors, server):
    """The events behind the buttons of the page, called from a session that has explained nothing."""
    address, served = server
    write_text(visitors["anna"], SECRETS["anna"])
    explain(visitors["anna"])
    with httpx.Client(timeout=WAIT / 1000, trust_env=False) as client:
        events = client.get(f"{address}config").json()["dependencies"]
        without_inputs = [event["id"] for event in events if not event["inputs"]]  # downloads, edits, cancel, examples
        assert len(without_inputs) >= 6
        for event in without_inputs:
            body = {"data": [], "event_data": {"removed": [0]}, "fn_index": event, "session_hash": f"eve{event}"}
            if client.post(f"{address}gradio_api/queue/join", json=body).status_code == 200:
                assert "Marmalade" not in answer(client, address, f"eve{event}")
    anna_results = [results for visitor, results in results_of(served).items() if "eve" not in visitor]
    assert any("Marmalade" in rationale.text for results in anna_results for rationale in results.rationales)


def answer(client, address, session) -> str:
    """What the server sends to this session until the event is complete."""
    lines = []
    with client.stream("GET", f"{address}gradio_api/queue/data", params={"session_hash": session}) as stream:
        for line in stream.iter_lines():
            lines.append(line)
            if line.startswith("data:") and json.loads(line[5:])["msg"] in ("process_completed", "close_stream"):
                break
    received = "\n".join(lines)
    files = [base64.b64decode(content) for content in re.findall(r'\\"content\\": \\"([A-Za-z0-9+/=]*)', received)]
    return received + b"\n".join(files).decode(errors="replace")  # downloads are sent as base64


def results_of(served):
    return {visitor: results for visitor, (_, results) in served.visitors._entries.items()}


def test_results_are_forgotten_when_the_page_is_closed(visitors, server):
    _, served = server
    write_text(visitors["ben"], SECRETS["ben"])
    explain(visitors["ben"])
    assert any("Gooseberry" in results.rationales[0].text for results in results_of(served).values())
    for page in visitors.values():
        page.close()
    deadline = time.monotonic() + FORGET_SECONDS
    while len(served.visitors) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(served.visitors) == 0


def test_a_sound_is_explained_and_edited(visitors, tmp_path):
    pytest.importorskip("soundfile", reason="sound files need the extra audio")
    page = visitors["anna"]
    file = tmp_path / "beep.wav"
    file.write_bytes(wav())
    choose(page, "Model", "loud")
    page.locator("#sound input[type=file]").set_input_files(file)
    playwright_api.expect(page.locator("#sound .name")).to_have_text("beep.wav")
    explain(page)
    frame = result(page)
    playwright_api.expect(frame.locator("h1")).to_have_text("Why loud?")
    waveform = frame.locator("article .wave path").first
    assert waveform.evaluate("path => getComputedStyle(path).fill") != "none"  # it is drawn
    before = page.locator("#edited tr.target td").nth(1).inner_text()
    brush = page.locator("#edit .brush.sound")
    brush.scroll_into_view_if_needed()
    brush.focus()
    columns = int(brush.get_attribute("data-columns"))
    for _ in range(columns):  # every moment is taken out
        page.keyboard.press("Space")
        page.keyboard.press("ArrowRight")
    playwright_api.expect(page.locator("#edited .what")).to_contain_text(f"{columns} ")
    assert page.locator("#edited tr.target td").nth(1).inner_text() != before
