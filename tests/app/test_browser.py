"""The page in Chromium: explain, slide, compare, edit, upload, download, cancel; and an accessibility check."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from web_samples import HOSTILE_LABEL, png, scene

playwright_api = pytest.importorskip("playwright.sync_api", reason="the tests of the page need playwright")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if BROWSER is None:
    pytest.skip("no browser: install Chromium to test the page in it", allow_module_level=True)

ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
WAIT = 60_000  # milliseconds, for a busy machine
TEXT = "A dull film, but the cast is good."
HOSTILE = "<script>window.broken = 1</script> A dull film & 'nothing' \"good\"."


@pytest.fixture(scope="module")
def browser():
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def opened(browser, server):
    """A page, and the addresses that it has asked for."""
    context = browser.new_context(viewport={"width": 1280, "height": 1400}, accept_downloads=True)
    page, requests = context.new_page(), []
    page.set_default_timeout(WAIT)
    playwright_api.expect.set_options(timeout=WAIT)
    page.on("request", lambda request: requests.append(request.url))
    page.goto(server[0])
    page.locator("#explain").wait_for()
    yield page, requests
    context.close()


def choose(page, label: str, *names: str) -> None:
    """Choose entries of a dropdown by typing; of one with several, all earlier entries are removed first."""
    box = page.get_by_label(label, exact=False).first
    box.click()
    for name in names:
        box.fill(name)
        page.get_by_role("option", name=name, exact=True).first.click()
    page.keyboard.press("Escape")


def explain(page) -> None:
    page.locator("#explain").click()
    page.locator("#after").wait_for(state="hidden")
    page.locator("#after").wait_for(state="visible")


def result(page):
    return page.frame_locator("iframe.result").first


def joins(requests) -> int:
    return sum("queue/join" in url for url in requests)


def write_text(page, text: str) -> None:
    page.locator("#text textarea").fill(text)


def test_explain_a_text_compare_three_methods_and_move_the_slider(opened):
    page, requests = opened
    write_text(page, TEXT)
    choose(page, "Methods", "saliency")
    page.locator("#explain").click()
    page.locator("#after").wait_for(state="visible")
    frame = result(page)
    playwright_api.expect(frame.locator("article h2")).to_have_text(["marc", "occlusion", "saliency"])
    assert frame.locator("figure.curve").count() == 3
    playwright_api.expect(frame.locator("article .text").first).to_have_text(TEXT)
    second = frame.locator("article").nth(1)
    before, asked = second.locator(".of .rationale .value").inner_text(), joins(requests)
    slider = second.locator("input.cut")
    slider.focus()
    slider.press("Home")  # all words
    playwright_api.expect(second.locator("output")).to_contain_text("10 of 10 words")
    assert second.locator(".of .rationale .value").inner_text() == second.locator(".of .full .value").inner_text()
    slider.press("End")  # no word
    playwright_api.expect(second.locator("output")).to_contain_text("0 of 10 words")
    second.locator(".reset").click()
    playwright_api.expect(second.locator(".of .rationale .value")).to_have_text(before)
    assert joins(requests) == asked  # nothing was computed again


def test_edit_a_word(opened):
    page, _ = opened
    word = page.locator('#edit [data-part="8"]')  # good
    assert word.inner_text() == "good"
    full = page.locator("#edited tr.target td").nth(2).inner_text()
    word.scroll_into_view_if_needed()
    page.wait_for_timeout(500)  # until nothing moves under the pointer
    word.click()
    playwright_api.expect(word).to_have_attribute("aria-pressed", "true")
    playwright_api.expect(page.locator("#edited .what")).to_have_text("1 word taken out")
    assert page.locator("#edited tr.target td").nth(1).inner_text() != full
    page.get_by_role("button", name="Put everything back").click()
    playwright_api.expect(page.locator("#edited .what")).to_have_text("nothing taken out yet")
    assert page.locator("#edited tr.target td").nth(1).inner_text() == full


def test_download_the_page_and_the_data(opened, tmp_path):
    page, _ = opened
    for button, name, start in (
        ("Page (HTML)", "rationale.html", "<!doctype html>"),
        ("Data (JSON)", "rationales.json", "{"),
    ):
        with page.expect_download() as download:
            page.get_by_role("button", name=button).first.click()
        assert download.value.suggested_filename == name
        saved = tmp_path / name
        download.value.save_as(saved)
        assert saved.read_text(encoding="utf-8").startswith(start)
    page_text = (tmp_path / "rationale.html").read_text(encoding="utf-8")
    assert "postMessage" not in page_text  # that is for the frame
    assert all(name in page_text for name in ("marc", "occlusion", "saliency"))


def test_hostile_text_is_displayed_and_not_run(opened):
    page, _ = opened
    write_text(page, HOSTILE)
    explain(page)
    playwright_api.expect(result(page).locator("article .text").first).to_have_text(HOSTILE)
    assert page.evaluate("window.broken") is None
    assert page.locator("#edit script").count() == 0


def test_cancel_a_long_job(opened, server):
    page, _ = opened
    write_text(page, f"{TEXT} " * 60)
    page.get_by_role("button", name="More").click()
    page.locator("#steps input").fill("5000")
    page.locator("#explain").click()
    page.locator("#progress [role=progressbar]").wait_for()
    job = next(iter(server[1].jobs._jobs.values()))
    page.locator("#cancel").click()
    playwright_api.expect(page.locator("#progress")).to_contain_text("cancelled")
    assert job.wait(20)  # the optimisation has stopped
    playwright_api.expect(page.locator("#explain")).to_be_enabled()
    page.locator("#steps input").fill("0")


def test_upload_an_image_and_brush_the_red_out(opened, tmp_path):
    page, _ = opened
    file = tmp_path / "<b>scene<b>.png"
    file.write_bytes(png(scene()))
    choose(page, "Model", "red")
    page.locator("#image input[type=file]").set_input_files(file)
    playwright_api.expect(page.locator("#image .name")).to_have_text("<b>scene<b>.png")
    assert page.locator("#image .preview img").count() == 1
    explain(page)
    frame = result(page)
    frame.locator("article.image.seen").first.wait_for()
    playwright_api.expect(frame.locator("h1, h2").first).to_have_text("Why red?")
    brush = page.locator("#edit .brush")
    brush.scroll_into_view_if_needed()
    box = brush.bounding_box()
    before = page.locator("#edited tr.target td").nth(1).inner_text()
    page.mouse.move(box["x"] + 0.05 * box["width"], box["y"] + 0.2 * box["height"])
    page.mouse.down()
    for step in range(6):
        for across in (0.05, 0.45):
            page.mouse.move(box["x"] + across * box["width"], box["y"] + (0.2 + 0.1 * step) * box["height"], steps=8)
    page.mouse.up()
    playwright_api.expect(page.locator("#edited .what")).to_contain_text("cells taken out")
    assert page.locator("#edited tr.target td").nth(1).inner_text() != before
    assert HOSTILE_LABEL in page.locator("#edited").inner_text()


def test_a_table_becomes_a_page(opened, tmp_path):
    page, _ = opened
    file = tmp_path / "reviews.csv"
    file.write_text("text\nA good film.\n<script>window.broken = 2</script> A dull film.\n", encoding="utf-8")
    for _ in range(20):  # a click may come before the page listens
        page.get_by_role("tab", name="Table").click()
        page.wait_for_timeout(500)
        if page.locator("#table input[type=file]").count():
            break
    page.locator("#table input[type=file]").set_input_files(file)
    playwright_api.expect(page.locator("#table .name")).to_have_text("reviews.csv")
    page.locator("#explain-table").click()
    page.locator("#after-table").wait_for(state="visible")
    frame = page.frame_locator("iframe.result").last
    playwright_api.expect(frame.locator("nav li")).to_have_count(2)
    assert page.evaluate("window.broken") is None
    page.get_by_role("tab", name="Explain").click()


def test_nothing_was_asked_for_elsewhere(opened, server):
    _, requests = opened
    assert [url for url in requests if not url.startswith((server[0], "data:", "blob:", "about:"))] == []


def axe_script() -> str:
    """axe-core from npm, kept in the cache folder; a notice where it cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rationales-tests"
    script = cache / "node_modules" / "axe-core" / "axe.min.js"
    npm = shutil.which("npm")
    if not script.is_file() and npm is not None:
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [npm, "install", "--no-save", "--no-audit", "--no-fund", "--prefix", str(cache), "axe-core@4"],
            capture_output=True,
            timeout=120,
            check=False,
        )
    if not script.is_file():
        pytest.skip("no accessibility check: axe-core could not be installed with npm")
    return script.read_text(encoding="utf-8")


SERIOUS = """
async () => {
  const found = await axe.run(document, {resultTypes: ["violations"]});
  return found.violations.filter(item => ["serious", "critical"].includes(item.impact))
    .map(item => `${item.id}: ${item.nodes.map(node => node.html.slice(0, 160)).join(" | ")}`);
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_accessibility_findings(opened, scheme):
    page, _ = opened
    script = axe_script()
    page.emulate_media(color_scheme=scheme)
    if scheme == "dark":
        page.evaluate("document.body.classList.add('dark')")
    page.mouse.move(0, 0)
    page.wait_for_timeout(1000)  # colours change gradually
    findings = []
    for frame in page.frames:
        frame.evaluate(script)
        findings += frame.evaluate(SERIOUS)
    assert findings == []
