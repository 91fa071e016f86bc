"""What a filler expects in the place of each word: worked out by hand, in the terminal and on the page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bags import bag_of_words
from commands import error
from commands import run as command
from families import tiny
from methods.fillers import filler_folder, known_filler, tiny_filler

import rationales
from rationales.errors import InputError, OptionError
from rationales.methods import build
from rationales.models.text.tokens import TextInput
from rationales.pipeline.word_candidates import Prediction, _deletions, word_candidates
from rationales.rationale import Rule, Unit
from rationales.report.comparison import comparison_table
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

    def test_beside_each_word_is_what_the_model_predicts_without_it(self, proposals):
        """Figure A17: the model reads "good" alone, so its label changes without it; both classes are then even."""
        model = rationales.load(*bag_of_words())
        shorter = rationales.explain(model, "the was good", method="random").probabilities["full"]
        assert proposals.predicted.label == "positive"
        assert proposals.predicted.probability == pytest.approx(proposals.probability)
        assert proposals.words[1].without.label == "positive"
        assert proposals.words[1].without.probability == pytest.approx(shorter["positive"], abs=1e-6)
        neutral = rationales.explain(model, "the soup was", method="random").probabilities["full"]
        assert proposals.words[3].without.probability == pytest.approx(max(neutral.values()), abs=1e-6)

    @pytest.mark.parametrize("text", ["good", ("the soup", "was bad")])
    def test_without_a_word_it_is_the_model_on_the_shorter_text(self, text):
        """As leave-one-out finds it: a text of one word becomes its special tokens, a pair loses a word of either."""
        model = rationales.load(*tiny("bert", num_labels=2))
        listed = word_candidates(model, text, tiny_filler(), target=0, count=1)
        scores = rationales.explain(model, text, method="loo-empty", target=0, options={"output": "probability"}).scores
        for word, score in zip(listed.words, scores, strict=True):
            first = listed.probability - score
            assert word.without.label == ("LABEL_0" if first > 0.5 else "LABEL_1")
            assert word.without.probability == pytest.approx(max(first, 1 - first), abs=1e-5)

    def test_a_long_text_is_predicted_segment_by_segment_however_many_words_go_together(self, monkeypatch):
        model, text = rationales.load(*tiny("bert", num_labels=2)), "nobody laughed at the joke again , but " * 12
        (item,) = model.encode([TextInput(text)])
        assert len(item.rows) > 1
        at_once = _deletions(model, item)
        monkeypatch.setattr("rationales.pipeline.word_candidates.WORDS_AT_ONCE", 7)
        for first, second in zip(at_once, _deletions(model, item), strict=True):
            assert first.label == second.label
            assert first.probability == pytest.approx(second.probability, abs=1e-6)
        without_first = model.batch(model.encode([TextInput(text.removeprefix("nobody "))])).predict()
        assert at_once[0].probability == pytest.approx(float(without_first.max()), abs=0.02)  # segments end elsewhere

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
        assert lines[0].endswith("(positive > 99.9 %).")
        assert lines[1].split() == ["without", "it", "candidates"]
        assert lines[-1].startswith("good   negative 50.0 %     good .900 →")

    def test_page_escapes_words(self, proposals):
        words = list(proposals.words)
        words[0] = replace(words[0], unit=Unit("<script>", 0, 8), candidates=words[3].candidates)
        evil = type(words[3].candidates[0])("</table><img src=x>", 0.5, 0.5, False)
        words[1] = replace(words[1], candidates=(evil,), without=Prediction("<s>", 0.9))
        section = candidates_section(
            replace(proposals, words=tuple(words), target="<b>", probability=0.5, filler="<i>")
        )
        assert "<script>" not in section
        assert "<img" not in section
        assert "&lt;script&gt;" in section
        assert "&lt;b&gt;" in section
        assert "<td><strong>&lt;s&gt; 90.0 %</strong></td>" in section  # another label
        assert "<td><span>positive " in section
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

    def test_a_selection_is_measured_by_them_as_in_figure_2(self):
        """People marked three words, a method selects two, one of them marked: IoU 1/4, precision 1/2, recall 1/3."""
        model = rationales.load(*bag_of_words())
        compared = rationales.compare(model, "the soup was good", ["loo-empty"], marks=[(0, 12)], top=2)
        people, method = compared.rationales
        assert people.selected().tolist() == [True, True, True, False]
        scores = np.array([1.0, 0.0, 0.0, 2.0])
        compared = replace(compared, rationales=(people, replace(method, scores=scores, rule=Rule(top=2))))
        assert compared.rationales[1].selected().tolist() == [True, False, False, True]
        data = compared.to_dict()
        assert data["overlap"][0][1] == 0.25
        assert data["precision"] == [1.0, 0.5]
        assert data["recall"] == [1.0, pytest.approx(1 / 3)]
        headings, rows = comparison_table(compared.rationales, compared.titles)
        row = dict(zip(headings, rows[1], strict=True))
        assert [row[name] for name in ("overlap", "precision", "recall")] == ["0.25", "0.50", "0.33"]
        assert "recall: the share of the marked ones that are selected" in compared.to_html()

    def test_no_marks_and_no_people(self):
        model = rationales.load(*bag_of_words())
        nothing = rationales.compare(model, TEXT, ["loo-empty"], marks=[])
        assert nothing.to_dict()["precision"] == [None, None]
        assert "precision" not in str(rationales.compare(model, TEXT, ["loo-empty", "random"]))
        assert "precision" not in rationales.compare(model, TEXT, ["loo-empty"]).to_dict()

    def test_marks_in_a_pair(self):
        model = rationales.load(*bag_of_words())
        compared = rationales.compare(model, ("the soup", "was good"), ["loo-empty"], marks=[], pair_marks=[(4, 8)])
        assert compared.titles == ("People", "loo-empty")
        assert compared.rationales[0].scores.tolist() == [0, 0, 0, 1]

    def test_mistakes(self):
        assert "does not stand in the text" in error(command("compare", "the soup", "--mark", "bread"))
        with pytest.raises(InputError, match=r"the mark 3\.\.90 lies outside"):
            rationales.compare(rationales.load(*bag_of_words()), TEXT, ["loo-empty"], marks=[(3, 90)])
