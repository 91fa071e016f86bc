"""The page displays exactly the text, and no text, label or option ever becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import string
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import make_rationale, rationales, texts

import rationales as rationales_package
from rationales import Rationale
from rationales.rationale import Note, Rule, Unit
from rationales.report.bidirectional import NAMES
from rationales.report.html.marked_text import LEVELS, embedded_json, escape, right_to_left
from rationales.report.html.page import fragment, page
from rationales.report.scale import scale_of

VOID = {"meta", "input", "line"}
TAGS = re.compile(
    "meta|input|line|html|head|title|style|body|main|nav|h1|h2|h3|ol|ul|li|a|em|b|bdi|article|header|p|strong|div|span|"
    "mark|i|section|svg|path|rect|label|output|button|script|table|thead|tbody|tr|th|td|small|aside|details|summary|"
    "dl|dt|dd|footer"
)
# attribute -> what its value may be; titles and labels are our own words and numbers
ATTRIBUTES = {
    "aria-hidden": "true",
    "aria-label": "Index|Threshold|Notes|Information|Filter by label, name or words|Previous span|Next span|"
    "Probabilities of the classes|(Text|Pair); arrow keys walk through it",
    "charset": "utf-8",
    "class": "[a-z0-9 ]+",
    "colspan": "2",
    "content": ".+",
    "d": "[-MVHZ0-9. e]+",
    "dir": "ltr|rtl",
    "for": r"t\d+",
    "height": "8",
    "href": r"#r\d+",
    "http-equiv": "Content-Security-Policy",
    "id": r"[rt]\d+",
    "lang": "en|",
    "name": "viewport|referrer|generator",
    "placeholder": "Filter by label, name or words",
    "preserveaspectratio": "none",
    "role": "group|status",
    "scope": "col|row",
    "tabindex": "0",
    "title": r"Previous span|Next span|Back to the rule: [-+a-z0-9. %]+|[-+0-9.e]+",
    "type": "range|search|button|application/json",
    "viewbox": r"0 0 \d+ \d+",
    "width": r"[\d.]+",
    **dict.fromkeys(("min", "max", "value"), r"\d+"),
    **dict.fromkeys(("x1", "x2", "y1", "y2"), r"-?[\d.e+]+"),
    **dict.fromkeys(("disabled", "hidden"), None),
}


class Reader(HTMLParser):
    """Reads a page as a browser would, and keeps what the tests ask for."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.displayed: list[str] = []  # per text
        self.units: list[tuple[str, set[str]]] = []  # content and classes of each unit
        self.content: dict[str, list[str]] = {}  # tag -> content of each such element
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        attribute_map = dict(attributes)
        assert len(attribute_map) == len(attributes)
        self.elements.append((tag, attribute_map))
        if tag in VOID or self.get_starttag_text().endswith("/>"):  # type: ignore[union-attr]  # there is one
            return
        self.open.append((tag, attribute_map))
        self.content.setdefault(tag, []).append("")
        if attribute_map.get("class") == "text":
            self.displayed.append("")
        if self._in_text() and tag in ("span", "mark"):
            self.units.append(("", set((attribute_map.get("class") or "").split())))

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1][0] == tag
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for tag, _ in self.open:
            self.content[tag][-1] += data
        if self._in_text():
            self.displayed[-1] += data
            if any(tag in ("span", "mark") for tag, _ in self.open):
                content, classes = self.units[-1]
                self.units[-1] = (content + data, classes)

    def handle_comment(self, data: str) -> None:
        pytest.fail(f"a comment: {data!r}")

    def _in_text(self) -> bool:
        return any(attributes.get("class") == "text" for _, attributes in self.open)


def showable(text: str) -> str:
    """What an HTML file can hold of a text: everything but NUL."""
    return text.replace("\x00", "\ufffd")


class TestEveryCharacter:
    @given(st.lists(rationales(), min_size=1, max_size=3))
    @settings(max_examples=60)
    def test_the_page_shows_the_texts_exactly(self, several: list[Rationale]) -> None:
        expected = [showable(text) for item in several for text in (item.text, item.pair) if text is not None]
        assert Reader(page(several)).displayed == expected

    @given(rationales())
    @settings(max_examples=60)
    def test_the_fragment_shows_the_texts_exactly(self, rationale: Rationale) -> None:
        expected = [showable(text) for text in (rationale.text, rationale.pair) if text is not None]
        assert Reader(fragment(rationale)).displayed == expected

    @given(st.lists(rationales(), max_size=2))
    @settings(max_examples=60)
    def test_every_element_and_attribute_is_one_of_ours(self, several: list[Rationale]) -> None:
        for source in (page(several), *map(fragment, several)):
            for tag, attributes in Reader(source).elements:
                assert TAGS.fullmatch(tag)
                for name, value in attributes.items():
                    allowed = ATTRIBUTES[name]
                    assert value is allowed is None or re.fullmatch(allowed, value or ""), (tag, name, value)

    @given(st.text(alphabet=string.punctuation + string.ascii_letters, min_size=1, max_size=40))
    def test_what_the_text_says_does_not_change_the_structure(self, word: str) -> None:
        def structure(filling: str) -> list[tuple[str, dict[str, str | None]]]:
            names = {
                "target": filling,
                "labels": (filling,),
                "probabilities": {"full": {filling: 0.5}},
                "model": filling,
            }
            metadata = {"name": filling, "stop": filling, "baseline": filling, "versions": {filling: filling}}
            options = {"options": {filling: filling}, "notes": (Note(filling, filling),)}
            rationale = make_rationale(f"{filling} {filling}", **names, **metadata, **options)
            return Reader(page([rationale, rationale])).elements

        assert structure(word) == structure("x" * len(word))

    @given(texts())
    def test_names_are_shown_as_they_are(self, name: str) -> None:
        reader = Reader(page([make_rationale("a", target=name or "x", name=name)]))
        assert reader.content["h1"] == [f"Why {showable(name) or 'x'}?"]
        assert reader.content["title"] == [f"Why {showable(name) or 'x'}?"]

    @given(texts())
    def test_escaped_text_is_read_back_and_holds_no_bare_carriage_return(self, text: str) -> None:
        assert "\r" not in escape(text)  # a browser would turn it into a line feed
        assert "".join(Reader(f"<p>{escape(text)}</p>").content["p"]) == showable(text)

    def test_half_a_character_does_not_stop_the_page(self) -> None:
        assert page([make_rationale("half \ud83d")]).encode("utf-8")

    @given(st.recursive(st.none() | st.booleans() | st.integers() | texts(), st.lists))
    def test_json_in_a_page_ends_no_element_and_reads_back(self, value: object) -> None:
        content = embedded_json(value)
        assert not set(content) & set("<>&\u2028\u2029\n")
        assert json.loads(content) == value


class TestSelection:
    @given(rationales())
    @settings(max_examples=60)
    def test_the_page_starts_with_the_methods_own_selection(self, rationale: Rationale) -> None:
        for source in (page([rationale]), fragment(rationale)):
            units = Reader(source).units
            spans = rationale.spans()
            assert [content for content, _ in units] == [showable(unit.text) for unit in rationale.units]
            assert [index for index, (_, c) in enumerate(units) if "first" in c] == [span.first for span in spans]
            assert [index for index, (_, c) in enumerate(units) if "last" in c] == [span.last for span in spans]
            assert ["in" in classes for _, classes in units] == rationale.selected().tolist()

    @given(rationales())
    @settings(max_examples=60)
    def test_the_script_gets_the_scores_and_a_threshold_that_amounts_to_the_rule(self, rationale: Rationale) -> None:
        data = json.loads(Reader(page([rationale])).content["script"][0])
        assert np.asarray(data["scores"], dtype=np.float32).tobytes() == rationale.scores.tobytes()
        chosen = rationale.selected()
        if rationale.rule.threshold is not None:
            assert data["start"] == rationale.rule.threshold
        elif chosen.any():
            assert all(score >= data["start"] for score in rationale.scores[chosen])
            lowest = rationale.scores[chosen].min()
            assert all(score <= max(data["start"], lowest) for score in rationale.scores[~chosen])

    def test_the_space_inside_a_span_belongs_to_it_and_the_space_around_it_does_not(self) -> None:
        source = page([make_rationale("so not good though", [0, 1, 1, 0])])
        gaps = re.findall(r"<i( class=\"[^\"]*\")?> </i>", source)
        assert ["in" in gap for gap in gaps] == [False, True, False]

    def test_numbers_are_titles_where_no_script_runs(self) -> None:
        titles = [
            attributes.get("title") for tag, attributes in Reader(fragment(make_rationale("a b", [0.25, 1]))).elements
        ]
        assert [title for title in titles if title] == ["0.25", "1.00"]


class TestColour:
    @given(rationales())
    @settings(max_examples=60)
    def test_stronger_scores_have_stronger_colours_and_signs_have_their_own(self, rationale: Rationale) -> None:
        strength = scale_of(rationale).strength(rationale.scores)
        for (_, classes), score in zip(Reader(page([rationale])).units, strength, strict=True):
            levels = [name for name in classes if re.fullmatch(r"[fa]\d+", name)]
            expected = round(abs(float(score)) * LEVELS)  # both round half to even
            assert levels == ([f"{'f' if score > 0 else 'a'}{expected}"] if expected else [])

    def test_the_style_knows_every_level(self) -> None:
        style = page([make_rationale("a")])
        for level in range(1, LEVELS + 1):
            assert f".f{level}{{" in style
            assert f".a{level}{{" in style


class TestSafety:
    def test_the_policy_allows_the_pages_own_style_and_script_only(self) -> None:
        reader = Reader(page([make_rationale("a b")]))
        policy = next(a["content"] for _, a in reader.elements if a.get("http-equiv") == "Content-Security-Policy")
        assert policy is not None
        code = [content for content in reader.content["script"] if not content.startswith("{")]
        for directive, (content,) in (("style-src", reader.content["style"]), ("script-src", code)):
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert f"{directive} 'sha256-{digest}'" in policy.split("; ")
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy

    def test_nothing_is_fetched(self) -> None:
        source = page([make_rationale("a b"), make_rationale("c", pair="d")])
        assert not re.search(r"https?:|url\(|@import|\bsrc=|<link|<img|<iframe", source)

    def test_a_fragment_has_no_script_and_no_ids(self) -> None:
        elements = Reader(fragment(make_rationale("a b"))).elements
        assert not any(tag == "script" or "id" in attributes for tag, attributes in elements)

    def test_ids_are_unique_on_a_page(self) -> None:
        ids = [
            a["id"]
            for _, a in Reader(page([make_rationale("a"), make_rationale("b"), make_rationale("c")])).elements
            if "id" in a
        ]
        assert len(ids) == len(set(ids)) > 3


class TestWritingDirection:
    @pytest.mark.parametrize("control", sorted(NAMES), ids=NAMES.get)
    def test_a_control_stands_alone_in_an_element_that_isolates_and_names_it(self, control: str) -> None:
        isolated = f'<bdi class="c {NAMES[control].lower()}">{control}</bdi>'
        rationale = make_rationale(
            f"I liked {control}ton it", [0, 0, 1, 0], name=f"a{control}.txt", target=f"n{control}"
        )
        for source in (page([rationale, rationale]), fragment(rationale)):
            body = source.partition("</style>")[2].replace(isolated, "")
            text = re.sub(r"<script.*?</script>", "", body, flags=re.DOTALL)
            assert control not in text
            assert f'.c.{NAMES[control].lower()}::before{{content:"{NAMES[control]}"}}' in source
        assert ".rationales .c { unicode-bidi: isolate; }" in page([rationale])

    def test_words_of_other_scripts_are_left_as_they_are(self) -> None:
        assert '<bdi class="c' not in page([make_rationale("שלום good مرحبا")])


class TestRoomForOutlines:
    def test_a_unit_leaves_room_where_a_mark_follows_at_once(self) -> None:
        units = (Unit("good", 0, 4), Unit(".", 4, 5), Unit("un", 6, 8), Unit("kind", 8, 12))
        rationale = make_rationale("good. unkind", [1, 0, 0, 0], units=units)
        tight = [content for content, classes in Reader(page([rationale])).units if "t" in classes]
        assert tight == ["good"]  # not inside a word, where letters may be joined


class TestWhatItSays:
    def test_a_target_that_the_model_does_not_predict_is_not_called_its_prediction(self) -> None:
        expected = "The model predicts negative (90.0 %); explained here is positive (10.0 %)."
        reader = Reader(page([make_rationale("a b", target="positive")]))
        assert any(words.startswith(expected) for words in reader.content["p"])
        assert "explained here" not in page([make_rationale("a b")])

    def test_all_classes_have_their_numbers(self) -> None:
        labels = ("a", "b", "c", "d")
        chances = dict(zip(labels, (0.4, 0.3, 0.2, 0.1), strict=True))
        probabilities = dict.fromkeys(("full", "rationale", "complement", "baseline"), chances)
        for source in (page, fragment):
            rationale = make_rationale("x y", labels=labels, target="b", probabilities=probabilities)
            reader = Reader(source([rationale]) if source is page else source(rationale))
            assert [head for head in reader.content["th"] if head in labels] == ["b", "a", *labels]

    def test_what_only_informs_is_not_framed_as_a_warning(self) -> None:
        rationale = make_rationale("a", notes=(Note("baselines", "grey was chosen"), Note("x", "look again")))
        warnings, information = Reader(page([rationale])).content["aside"]
        assert (warnings, information) == ("look again", "grey was chosen")

    def test_the_index_has_a_filter_the_prediction_and_the_first_words(self) -> None:
        several = [make_rationale("first of all"), make_rationale("second to none", target="positive", name="b.txt")]
        reader = Reader(page(several))
        assert next(attributes.get("class") for tag, attributes in reader.elements if tag == "input") == "filter"
        assert reader.content["a"][0] == "negative 90.0 % first of all"
        assert reader.content["a"][1] == "negative 90.0 % explained: positive b.txt second to none"

    def test_one_function_writes_a_page_of_many(self, tmp_path: Path) -> None:
        several = [make_rationale("a b"), make_rationale("c d")]
        written = rationales_package.page(several, tmp_path / "all.html")
        assert written == tmp_path / "all.html"
        assert written.read_text(encoding="utf-8") == rationales_package.page(several)
        assert rationales_package.page(several[0]) == several[0].to_html()

    def test_the_index_leads_to_every_rationale(self) -> None:
        elements = Reader(page([make_rationale("a"), make_rationale("b")])).elements
        targets = {f"#{attributes['id']}" for tag, attributes in elements if tag == "article"}
        assert {attributes["href"] for tag, attributes in elements if tag == "a"} == targets == {"#r1", "#r2"}

    def test_notes_options_and_versions_are_on_the_page(self) -> None:
        fields = {"options": {"steps": 80}, "versions": {"torch": "2.13"}, "notes": (Note("x", "try more steps"),)}
        reader = Reader(page([make_rationale("a", **fields, seed=7, stop="plateau")]))
        assert "try more steps" in reader.content["aside"][0]
        facts = dict(zip(reader.content["dt"], reader.content["dd"], strict=True))
        assert facts["Option steps"] == "80"
        assert facts["Version of torch"] == "2.13"
        assert facts["Seed"] == "7"
        assert facts["Stopped by"] == "plateau"

    def test_the_bars_are_as_long_as_the_probabilities(self) -> None:
        rationale = make_rationale("a b")
        widths = [float(a["width"] or 0) for tag, a in Reader(page([rationale])).elements if tag == "rect"]
        expected = [100 * by_label["negative"] for by_label in rationale.probabilities.values()]
        assert widths == pytest.approx(expected, abs=0.05)

    def test_nothing_selected_is_said(self) -> None:
        assert "nothing is marked" in page([make_rationale("a b", [0, 0])])

    def test_a_page_without_rationales_is_still_a_page(self) -> None:
        assert Reader(page([])).content["h1"] == ["0 rationales"]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("abc", False), ("123 אבג", True), ("مرحبا", True), ("(a) אבג", False), ("😀 !", False), ("", False)],
    )
    def test_direction_is_that_of_the_first_letter(self, text: str, expected: bool) -> None:
        assert right_to_left(text) == expected


def test_a_long_text_makes_a_page_of_bounded_size() -> None:
    words = 20_000
    rng = np.random.default_rng(0)
    source = page([make_rationale("word " * words, rng.random(words), rule=Rule(share=0.1))])
    assert len(source) < 100 * words


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_the_script_runs_in_a_browser_under_the_policy(tmp_path: Path) -> None:
    rationale = make_rationale("so not good though", [0, 1, 1, 0])
    rationale.to_html(tmp_path / "page.html")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
    command += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path}/profile"]
    command += ["--dump-dom", (tmp_path / "page.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert 'aria-valuetext="0.50"' in dom  # only the script sets this
    assert "1 span · 2 of 4 words" in dom
