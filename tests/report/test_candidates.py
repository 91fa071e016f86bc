"""What a filler expects in the place of each word: worked out by hand, in the terminal and on the page."""

from __future__ import annotations

import pytest
from bags import bag_of_words
from commands import error
from commands import run as command
from methods.fillers import filler_folder, known_filler

import rationales
from rationales.errors import InputError, OptionError
from rationales.methods import build
from rationales.pipeline.word_candidates import word_candidates
from rationales.rationale import Unit
from rationales.report.html.candidates import candidates_section
from rationales.report.terminal.candidates import plain_candidates

TEXT = "the soup was good"
SURE = {3: {"good": 0.9, "bad": 0.05, "dull": 0.02}}  # of the last word; nothing is expected of the others


@pytest.fixture(scope="module")
def proposals():
    return word_candidates(rationales.load(*bag_of_words()), TEXT, known_filler(SURE), count=2)


class TestCandidates:
    def test_are_the_likeliest_words_with_the_models_answer_in_their_place(self, proposals):
        last = proposals.words[3]
        assert [(item.word, item.is_original) for item in last.candidates] == [("good", True), ("bad", False)]
        assert [item.likelihood for item in last.candidates] == pytest.approx([0.9, 0.05], abs=1e-6)
        good, bad = (item.probability for item in last.candidates)
        assert good == pytest.approx(proposals.probability)  # the text as it is
        assert bad == pytest.approx(1 - good, abs=1e-6)  # the model is symmetric in "good" and "bad"
        assert proposals.target == "positive"

    def test_a_word_that_the_filler_is_sure_of_has_next_to_no_score(self):
        """Figure 1: by design, whatever the model thinks of it; leave-one-out sees the difference."""
        model = rationales.load(*bag_of_words())
        sure = known_filler({3: {"good": 0.999999, "bad": 1e-7}})
        marginal = rationales.explain(model, TEXT, method=build("input-marginalization", {"filler": sure}))
        deleted = rationales.explain(model, TEXT, method="loo-empty")
        assert abs(marginal.scores[3]) < 0.2
        assert deleted.scores[3] > 5  # log2-odds

    def test_another_class_can_be_asked_for(self):
        model = rationales.load(*bag_of_words())
        against = word_candidates(model, TEXT, known_filler(SURE), target="negative", count=1)
        assert against.target == "negative"
        assert against.words[3].candidates[0].probability == pytest.approx(against.probability)

    def test_the_filler_of_a_method_is_taken(self):
        method = build("input-marginalization", {"filler": known_filler(SURE)})
        proposed = word_candidates(rationales.load(*bag_of_words()), TEXT, method, count=1)
        assert proposed.words[3].candidates[0].word == "good"

    def test_one_word(self):
        proposed = word_candidates(rationales.load(*bag_of_words()), "good", known_filler({0: {"bad": 0.5}}), count=1)
        assert [item.word for item in proposed.words[0].candidates] == ["bad"]

    def test_mistakes(self):
        model = rationales.load(*bag_of_words())
        with pytest.raises(OptionError, match="whole number from 1"):
            word_candidates(model, TEXT, known_filler(SURE), count=0)
        with pytest.raises(OptionError, match="words as units"):
            word_candidates(rationales.load(*bag_of_words(), unit="token"), TEXT, known_filler(SURE))


class TestViews:
    def test_terminal(self, proposals):
        lines = plain_candidates(proposals).splitlines()
        assert lines[0].startswith("What KnownFiller expects in the place of each word")
        assert lines[-1].startswith("good   good .900 →")

    def test_page_escapes_words(self, proposals):
        words = list(proposals.words)
        words[0] = type(words[0])(Unit("<script>", 0, 8), words[3].candidates)
        evil = type(words[3].candidates[0])("</table><img src=x>", 0.5, 0.5, False)
        words[1] = type(words[1])(words[1].unit, (evil,))
        section = candidates_section(type(proposals)(tuple(words), "<b>", 0.5, "<i>"))
        assert "<script>" not in section
        assert "<img" not in section
        assert "&lt;script&gt;" in section
        assert "&lt;b&gt;" in section
        assert "<strong>good</strong> <small>.900 →" in section

    def test_command(self, tmp_path):
        page = tmp_path / "why.html"
        arguments = ("--method", "input-marginalization", "--set", f"filler={filler_folder()}", "--candidates", 2)
        done = command("explain", "the soup was cold", *arguments, "--html", page)
        assert done.exit_code == 0, done.output
        assert "expects in the place of each word" in done.stdout
        assert 'class="candidates"' in page.read_text(encoding="utf-8")
        assert "--candidates is for one text" in error(command("explain", "a text", *arguments, "--json"))


class TestHumanMarks:
    def test_are_a_column_beside_the_methods(self, tmp_path):
        page = tmp_path / "compare.html"
        done = command(
            "compare", "the soup was <u> good", "--methods", "loo-empty,random", "--mark", "<u> good", "--html", page
        )
        assert done.exit_code == 0, done.output
        assert "[[<u> good]]" in done.stdout
        assert "Rank correlation and overlap are with People" in done.stdout
        text = page.read_text(encoding="utf-8")
        assert "People" in text
        assert "<u>" not in text

    def test_marks_in_a_pair(self):
        model = rationales.load(*bag_of_words())
        compared = rationales.compare(model, ("the soup", "was good"), ["loo-empty"], marks=[], pair_marks=[(4, 8)])
        assert compared.titles == ("People", "loo-empty")
        assert compared.rationales[0].scores.tolist() == [0, 0, 0, 1]

    def test_mistakes(self):
        assert "does not stand in the text" in error(command("compare", "the soup", "--mark", "bread"))
        with pytest.raises(InputError, match=r"the mark 3\.\.90 lies outside"):
            rationales.compare(rationales.load(*bag_of_words()), TEXT, ["loo-empty"], marks=[(3, 90)])
