"""A study as people use it, in Chromium: by mouse, keyboard and finger, from a file and from a server."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from browser import chromium
from samples import make_rationale

from rationales.rationale import Rule
from rationales.study.answers import read_answers
from rationales.study.page import study_page
from rationales.study.server import StudyServer
from rationales.study.trials import make_study

SCRIPT = '</script><script>alert("1")</script>'
TEXTS = [f"A dull film {SCRIPT} with songs", "Warm and lovely & short."]
VISIBLE = ".trial:not([hidden])"


def study_of(task: str, texts: list[str] = TEXTS):
    """Two methods, one of which selects the first word and one the last."""
    rising = [make_rationale(text, rule=Rule(top=1), target="<b>", name=text) for text in texts]
    falling = [
        make_rationale(text, [-score for score in rationale.scores], rule=Rule(top=1), target="<b>", name=text)
        for text, rationale in zip(texts, rising, strict=True)
    ]
    return make_study({"first": falling, "last": rising}, task)


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def window(browser):
    """A page that has seen neither an error nor a dialog in the end."""
    with browser.new_context() as context:
        opened, problems = context.new_page(), []
        opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        opened.on("pageerror", lambda problem: problems.append(str(problem)))
        opened.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
        yield opened
        assert problems == []


def write(folder: Path, study) -> str:
    path = folder / "study.html"
    path.write_text(study_page(study), encoding="utf-8")
    return path.as_uri()


def begin(window, address: str, person: str) -> None:
    window.goto(address)
    window.fill("#person", person)
    window.click("#start")


def swipe_up(session) -> None:
    """A finger from the lower part of the window to the upper one."""
    for kind, y in (("touchStart", 500), *(("touchMove", y) for y in range(480, 180, -20)), ("touchEnd", None)):
        points = [] if y is None else [{"x": 150, "y": y}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def marked(window) -> list[int]:
    pressed = window.query_selector_all(f'{VISIBLE} .word[aria-pressed="true"]')
    return [int(word.get_attribute("data-unit")) for word in pressed]


@pytest.mark.parametrize("task", ["compare", "mark"])
def test_a_server_stores_what_a_person_answers(task, window, tmp_path):
    study = study_of(task)
    write(tmp_path, study)
    with StudyServer(("127.0.0.1", 0), tmp_path / "study.html", study.key(), tmp_path / "answers.jsonl") as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        begin(window, f"http://127.0.0.1:{server.server_port}/", "somebody")
        for _ in study.trials:
            assert window.is_disabled(f"{VISIBLE} .next")
            window.keyboard.press("1") if task == "compare" else window.click(f"{VISIBLE} .word >> nth=1")
            window.click(f"{VISIBLE} .next")
        window.wait_for_selector("#outcome:has-text('sent')")
        server.shutdown()
        thread.join(5)
    answers = read_answers([tmp_path / "answers.jsonl"], study.key())
    assert {answer.trial for answer in answers} == {"t1", "t2"}
    assert all(answer.choice == "A" if task == "compare" else answer.marked == (1,) for answer in answers)


def test_a_file_is_answered_without_a_server_and_goes_on_after_a_reload(window, tmp_path):
    study = study_of("compare")
    address = write(tmp_path, study)
    begin(window, address, "p 1")
    window.click(f"{VISIBLE} input[value=B]")
    window.click(f"{VISIBLE} .next")
    window.reload()
    assert window.text_content("#start") == "Continue"
    window.click("#start")
    assert window.text_content(".progress") == "Question 2 of 2"
    window.click(f"{VISIBLE} input[value=same]")
    window.click(f"{VISIBLE} .next")
    with window.expect_download() as download:
        window.click("#download")
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["choice"] for line in lines] == ["B", "same"]
    assert {json.loads(line)["person"] for line in lines} == {"p 1"}


def test_another_person_at_the_same_computer_starts_anew_and_both_keep_their_answers(window, tmp_path):
    address = write(tmp_path, study_of("compare"))
    begin(window, address, "first")
    window.keyboard.press("3")
    window.click(f"{VISIBLE} .next")
    begin(window, address, "second")
    assert window.text_content(".progress") == "Question 1 of 2"
    begin(window, address, "first")
    assert window.text_content(".progress") == "Question 2 of 2"


def test_words_are_marked_by_drawing_across_them_and_by_keyboard(window, tmp_path):
    begin(window, write(tmp_path, study_of("mark", ["a dull and careless film"])), "p")
    words = window.query_selector_all(f"{VISIBLE} .word")
    boxes = [word.bounding_box() for word in words]
    centres = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes]
    window.mouse.move(*centres[1])
    window.mouse.down()
    window.mouse.move(*centres[3], steps=10)
    window.mouse.up()
    assert marked(window) == [1, 2, 3]
    window.click(f"{VISIBLE} .word >> nth=2")
    assert marked(window) == [1, 3]
    words[4].focus()
    window.keyboard.press("Space")
    assert marked(window) == [1, 3, 4]
    window.check(f"{VISIBLE} .none")
    assert marked(window) == []


def test_a_finger_marks_by_tapping_and_scrolls_without_marking(browser, tmp_path):
    address = write(tmp_path, study_of("mark", ["word " * 400]))
    with browser.new_context(has_touch=True, is_mobile=True, viewport={"width": 390, "height": 600}) as context:
        window = context.new_page()
        begin(window, address, "p")
        window.tap(f"{VISIBLE} .word >> nth=3")
        assert marked(window) == [3]
        swipe_up(context.new_cdp_session(window))
        window.wait_for_function("window.scrollY > 100")
        assert marked(window) == [3]
