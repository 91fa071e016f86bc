"""The page in Chromium: explain, slide, compare, edit, upload, download, cancel; and an accessibility check."""

from __future__ import annotations

import re

import pytest
from browser import accessibility_findings, chromium
from web_page import WAIT, choose, explain, joins, result, settle, write_text
from web_samples import HOSTILE_LABEL, png, scene

playwright_api = pytest.importorskip("playwright.sync_api", reason="the tests of the page need playwright")

TEXT = "A dull film, but the cast is good."
HOSTILE = "<script>window.broken = 1</script> A dull film & 'nothing' \"good\"."
MIXED = "הסרט טוב. The ending is dull."  # Hebrew, from right to left, with an English sentence
STEPS_INTO_THE_SENTENCE = 3  # the words before "The", a full stop among them


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened_browser:
        yield opened_browser


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


def test_explain_a_text_compare_three_methods_and_move_the_slider(opened):
    page, requests = opened
    write_text(page, TEXT)
    choose(page, "Methods", "saliency")
    explain(page)
    frame = result(page)
    playwright_api.expect(frame.locator("article h2")).to_have_text(["marc", "occlusion", "saliency"])
    assert frame.locator("figure.curve").count() == 3
    playwright_api.expect(frame.locator("article .text").first).to_have_text(TEXT)
    second = frame.locator("article").nth(1)
    before, joins_before = second.locator(".of .rationale .value").inner_text(), joins(requests)
    slider = second.locator("input.cut")
    slider.focus()
    slider.press("Home")  # all words
    playwright_api.expect(second.locator("output")).to_contain_text("10 of 10 words")
    assert second.locator(".of .rationale .value").inner_text() == second.locator(".of .full .value").inner_text()
    slider.press("End")  # no word
    playwright_api.expect(second.locator("output")).to_contain_text("0 of 10 words")
    second.locator(".reset").click()
    playwright_api.expect(second.locator(".of .rationale .value")).to_have_text(before)
    assert joins(requests) == joins_before  # nothing was computed again


def test_edit_a_word(opened):
    page, _ = opened
    word = page.locator('#edit [data-part="8"]')  # good
    assert word.inner_text() == "good"
    full = page.locator("#edited tr.target td").nth(2).inner_text()
    word.scroll_into_view_if_needed()
    settle(page)
    word.click()
    playwright_api.expect(word).to_have_attribute("aria-pressed", "true")
    playwright_api.expect(page.locator("#edited .what")).to_have_text("1 word taken out")
    assert page.locator("#edited tr.target td").nth(1).inner_text() != full
    page.get_by_role("button", name="Put everything back").click()
    playwright_api.expect(page.locator("#edited .what")).to_have_text("nothing taken out yet")
    assert page.locator("#edited tr.target td").nth(1).inner_text() == full


def test_edit_with_the_keyboard(opened):
    page, _ = opened
    words = page.locator("#edit [data-part]")
    assert page.locator('#edit [data-part][tabindex="0"]').count() == 1  # one stop of the tabulator
    words.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    playwright_api.expect(words.nth(1)).to_have_attribute("aria-pressed", "true")
    playwright_api.expect(page.locator("#edited .what")).to_have_text("1 word taken out")
    page.keyboard.press("Space")
    playwright_api.expect(page.locator("#edited .what")).to_have_text("nothing taken out yet")


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


def test_words_to_be_edited_keep_the_writing_direction(opened):
    page, _ = opened
    write_text(page, MIXED)
    explain(page)
    words = page.locator("#edit [data-part]")
    assert words.all_inner_texts()[STEPS_INTO_THE_SENTENCE:] == ["The", "ending", "is", "dull", "."]
    first, the, ending, dull = (words.nth(number).bounding_box()["x"] for number in (0, 3, 4, 6))
    assert the < ending < dull < first  # English from left to right, to the left of the Hebrew words


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_accessibility_findings(opened, scheme):
    page, _ = opened
    page.emulate_media(color_scheme=scheme)
    if scheme == "dark":
        page.evaluate("document.body.classList.add('dark')")
    page.mouse.move(0, 0)
    page.wait_for_timeout(1000)  # colours change gradually
    assert [finding for frame in page.frames for finding in accessibility_findings(frame)] == []


def test_the_page_takes_the_dark_colours_of_the_system(browser, server):
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(server[0], timeout=WAIT)
    page.locator("#explain").wait_for(timeout=WAIT)
    page.wait_for_timeout(1000)
    assert accessibility_findings(page) == []
    tab = page.locator('button[role=tab][aria-selected="true"]').first  # axe cannot tell what is behind it
    text = tab.evaluate("tab => getComputedStyle(tab).color")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert contrast(text, background) >= 4.5  # WCAG 2.2, 1.4.3
    context.close()


def contrast(first: str, second: str) -> float:
    """The contrast ratio of two colours of a style sheet, as WCAG 2.2 defines it."""

    def luminance(colour: str) -> float:
        channels = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted(map(luminance, (first, second)))
    return (lighter + 0.05) / (darker + 0.05)
