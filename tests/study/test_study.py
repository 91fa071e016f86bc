"""A study is blinded, escapes everything, stores only checked answers, and its figures are those worked out by hand."""

from __future__ import annotations

import http.client
import json
import math
import re
import threading
from dataclasses import replace

import numpy as np
import pytest
from commands import error, run

import rationales
from rationales.errors import DataError, OptionError
from rationales.study.answers import Answer, parse_answer, read_answers
from rationales.study.page import study_page
from rationales.study.results import krippendorff_alpha, study_results
from rationales.study.server import MAX_BYTES, StudyServer
from rationales.study.trials import make_study, read_key

SCRIPT = '</script><script>alert("1")</script>'
TEXTS = [f"A dull film {SCRIPT}", "Warm and lovely & short."]
METHODS = ("first method", "second method")


def explained(texts=TEXTS):
    """Two methods that select different words: the first one, the last one."""
    model = rationales.load(lambda inputs: [0.9 if "dull" in text else 0.2 for text in inputs], labels=["<b>", "'bad'"])
    results = rationales.explain(model, texts, method="loo-empty", top=1)
    sides = {}
    for method, position in zip(METHODS, (0, -1), strict=True):
        sides[method] = []
        for rationale in results:
            selected = np.zeros(len(rationale.units), dtype=bool)
            selected[position] = True
            sides[method].append(replace(rationale, selection=selected))
    return sides


def key_of(task="compare", **options):
    return make_study(explained(), task, **options).key()


def answers_of(key, choices):
    """choices: person -> choice (or marked words) for every trial."""
    name = "choice" if key["task"] == "compare" else "marked"
    return [
        Answer(key["study"], person, trial["trial"], **{name: value}, seconds=seconds, position=1)
        for person, (values, seconds) in choices.items()
        for trial, value in zip(key["trials"], values, strict=True)
    ]


class TestTrials:
    def test_every_two_methods_are_compared_on_every_input(self):
        sides = explained()
        study = make_study({**sides, "third": [_inverted(rationale) for rationale in sides[METHODS[0]]]})
        assert [sorted(trial.methods) for trial in study.trials] == 2 * [
            ["first method", "second method"], ["first method", "third"], ["second method", "third"]]  # fmt: skip

    def test_which_is_a_depends_on_the_seed_and_both_orders_occur(self):
        sides = explained(["A dull film number two"] * 40)
        first = [trial.methods[0] for trial in make_study(sides, seed=1).trials]
        assert first == [trial.methods[0] for trial in make_study(sides, seed=1).trials]
        assert first != [trial.methods[0] for trial in make_study(sides, seed=2).trials]
        assert 10 < first.count(METHODS[0]) < 30

    def test_explanations_that_nobody_could_tell_apart_are_left_out(self):
        sides = explained()
        sides[METHODS[1]][0] = sides[METHODS[0]][0]
        study = make_study(sides)
        assert (len(study.trials), study.identical) == (1, 1)
        with pytest.raises(OptionError, match="nothing to compare"):
            make_study({"a": sides[METHODS[0]], "b": sides[METHODS[0]]})

    def test_words_are_marked_once_in_every_input(self):
        assert len(make_study(explained(), "mark").trials) == 2

    def test_mistakes_are_named(self):
        with pytest.raises(OptionError, match="at least two methods"):
            make_study({"one method": explained()[METHODS[0]]})
        with pytest.raises(OptionError, match="different inputs"):
            make_study({"a": explained()[METHODS[0]], "b": explained()[METHODS[0]][::-1]})


class TestPage:
    @pytest.mark.parametrize("task", ["compare", "mark"])
    def test_the_page_says_nothing_about_methods(self, task):
        page = study_page(make_study(explained(), task)).split("</head>")[1]
        assert not any(word in page for word in (*METHODS, "loo-empty", "scores", "selected"))

    @pytest.mark.parametrize("task", ["compare", "mark"])
    def test_texts_labels_and_titles_are_escaped(self, task):
        page = study_page(make_study(explained(), task, title=f"{SCRIPT}<img src=x onerror=alert(1)>"))
        assert len(re.findall(r"<script\b", page)) == 2, "its data and its code"
        assert "<img src=x" not in page
        assert "<b>" not in page
        assert "alert(&quot;1&quot;)" in re.sub(r"<[^>]*>", "", page)

    def test_all_text_is_shown_on_both_sides(self):
        section = study_page(make_study(explained())).split('class="sides"')[1].split("</div>")[0]
        paragraphs = re.findall(r'<p class="shown"[^>]*>(.*?)</p>', section)
        plain = [re.sub(r"<[^>]*>", "", text) for text in paragraphs]
        assert len(plain) == 2
        assert plain[0] == plain[1]

    def test_every_word_is_a_button(self):
        study = make_study(explained(), "mark")
        count = sum(len(trial.reference.units) for trial in study.trials)
        assert study_page(study).count('class="word"') == count

    def test_images_are_compared(self):
        from PIL import Image
        from torch import nn

        module = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(12, 2))
        model = rationales.load(module, lambda image: _pixels(image), labels=["a", "b"])
        picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8))
        sides = {m: rationales.explain(model, [picture], method=m, share=0.2) for m in ("saliency", "random")}
        assert study_page(make_study(sides)).count("<img ") == 4


class TestAnswers:
    def test_an_answer_survives_a_round_trip(self, tmp_path):
        key = key_of()
        answer = Answer(key["study"], "p 1", "t1", "A", seconds=1.5, position=2)
        path = tmp_path / "answers.jsonl"
        path.write_text(answer.to_line("compare") + "\n", encoding="utf-8")
        assert read_answers([path], key) == [answer]

    def test_of_two_answers_to_a_question_the_last_counts(self, tmp_path):
        key = key_of()
        path = tmp_path / "answers.jsonl"
        answers = [Answer(key["study"], "p", "t1", choice, seconds=1.0) for choice in ("A", "B")]
        path.write_text("\n".join(answer.to_line("compare") for answer in answers), encoding="utf-8")
        assert [answer.choice for answer in read_answers([path], key)] == ["B"]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"study": "another"}, "the study 'another'"),
            ({"trial": "t99"}, "no trial 't99'"),
            ({"trial": ["t1"]}, "no trial"),
            ({"person": ""}, "the person"),
            ({"person": "x" * 200}, "the person"),
            ({"seconds": -1}, "seconds"),
            ({"seconds": "1"}, "seconds"),
            ({"seconds": True}, "seconds"),
            ({"choice": "C"}, "the choice"),
            ({"choice": ["A"]}, "the choice"),
            ({"position": 1.5}, "position"),
        ],
    )
    def test_a_wrong_answer_is_refused_with_its_place(self, change, message):
        key = key_of()
        answer = {"study": key["study"], "person": "p", "trial": "t1", "choice": "A", "seconds": 1, "position": 1}
        with pytest.raises(DataError, match=f"line 3.*{message}"):
            parse_answer({**answer, **change}, key, "line 3")

    @pytest.mark.parametrize("marked", [[0, 0], [99], [-1], ["0"], [True], "0", None])
    def test_marks_are_numbers_of_words(self, marked):
        key = key_of("mark")
        answer = {"study": key["study"], "person": "p", "trial": "t1", "seconds": 1, "marked": marked}
        with pytest.raises(DataError, match="numbers of words"):
            parse_answer(answer, key, "line 3")


class TestResults:
    def test_krippendorffs_alpha_by_hand(self):
        """Units (a a), (a b), (b b), (a): the last has one value and is left out; n = 6, three a and three b.

        Observed disagreement 2 (the unit (a b), both ways); expected (3 x 3 + 3 x 3) / 5 = 3.6; alpha 1 - 2 / 3.6.
        """
        assert krippendorff_alpha(["aa", "ab", "bb", "a"]) == pytest.approx(1 - 2 / 3.6)
        assert krippendorff_alpha(["aa", "bb"]) == 1
        assert math.isnan(krippendorff_alpha(["a", "b"]))

    def test_preference_by_hand(self):
        """Two people prefer the first method on input 1, one prefers it and one is undecided on input 2: 1 and 3/4."""
        key = key_of()
        choices = {"p1": [], "p2": []}
        for number, trial in enumerate(key["trials"]):
            first = "AB"[trial["methods"].index(METHODS[0])]
            choices["p1"].append(first)
            choices["p2"].append(first if number == 0 else "same")
        results = study_results(key, answers_of(key, {"p1": (choices["p1"], 2.0), "p2": (choices["p2"], 6.0)}))
        (preference,) = results.preferences
        assert (preference.first, preference.second) == METHODS
        assert preference.share.mean == pytest.approx(0.875)
        assert (preference.wins, preference.losses, preference.ties) == (3, 0, 1)
        assert (results.seconds.mean, results.median_seconds, results.people) == (4.0, 4.0, 2)

    def test_agreement_of_marks_by_hand(self):
        """The first word alone: the first method's F1 with it is 1, the second's 0; people: 1 and 2 words, F1 2/3."""
        key = key_of("mark")
        marks = {"p1": ([(0,), (0,)], 1.0), "p2": ([(0, 1), (0, 1)], 1.0)}
        rows = {row.method: row for row in study_results(key, answers_of(key, marks)).agreements}
        assert rows["people"].f1.mean == pytest.approx(2 / 3)
        assert rows[METHODS[0]].f1.mean == pytest.approx((1 + 2 / 3) / 2)
        assert rows[METHODS[1]].f1.mean == 0

    def test_a_person_who_marked_nothing_does_not_spoil_the_figures(self):
        key = key_of("mark")
        marks = {"p1": ([(0,), (0,)], 1.0), "p2": ([(), ()], 1.0)}
        rows = {row.method: row for row in study_results(key, answers_of(key, marks)).agreements}
        assert rows[METHODS[0]].f1.mean == 1
        assert rows["people"].f1.mean == 0


@pytest.fixture
def server(tmp_path):
    study = make_study(explained())
    page = tmp_path / "study.html"
    page.write_text(study_page(study), encoding="utf-8")
    running = StudyServer(("127.0.0.1", 0), page, study.key(), tmp_path / "answers.jsonl")
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join(5)


def ask(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    content = response.read().decode()
    connection.close()
    return response.status, content


class TestServer:
    def answer(self, server, **change):
        line = {"study": server.key["study"], "person": "p", "trial": "t1", "choice": "A", "seconds": 1, "position": 1}
        return json.dumps({**line, **change})

    def test_it_gives_out_the_page_and_stores_answers(self, server):
        status, content = ask(server, "GET", "/")
        assert (status, content) == (200, server.page.decode())
        body = self.answer(server) + "\n" + self.answer(server, trial="t2", extra="<script>")
        assert ask(server, "POST", "/answers", body) == (200, "2\n")
        lines = server.answers.read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["trial"] for line in lines] == ["t1", "t2"]
        assert "script" not in lines[1], "only what was asked for is stored"

    @pytest.mark.parametrize("path", ["/../etc/passwd", "/study.key.json", "/answers.jsonl", "/answers", "/%2e%2e"])
    def test_nothing_else_can_be_read(self, server, path):
        assert ask(server, "GET", path)[0] == 404

    def test_one_wrong_answer_stores_none(self, server):
        body = self.answer(server) + "\n" + self.answer(server, choice="C")
        assert ask(server, "POST", "/answers", body)[0] == 400
        assert not server.answers.exists()

    @pytest.mark.parametrize("body", ["", "[1]", "{", "[" * 5000, '"text"', "\xff"])
    def test_what_is_no_answer_is_refused(self, server, body):
        assert ask(server, "POST", "/answers", body.encode("latin-1"))[0] == 400

    def test_too_much_is_refused_before_it_is_read(self, server):
        assert ask(server, "POST", "/answers", b"", **{"Content-Length": str(MAX_BYTES + 1)})[0] == 413
        assert ask(server, "POST", "/elsewhere", "x")[0] == 404

    def test_another_site_cannot_post(self, server):
        assert ask(server, "POST", "/answers", self.answer(server), Origin="http://evil.example")[0] == 403

    def test_many_at_once_are_all_stored(self, server):
        threads = [
            threading.Thread(target=ask, args=(server, "POST", "/answers", self.answer(server, person=f"p{number}")))
            for number in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert len(read_answers([server.answers], server.key)) == 20


class TestCommand:
    def test_from_texts_to_a_report(self, tmp_path):
        table = tmp_path / "reviews.csv"
        table.write_text("text\nA dull and endless film.\nWarm and lovely throughout.\n", encoding="utf-8")
        page = tmp_path / "study.html"
        result = run("study", "make", table, "--methods", "occlusion,random", "--top", "2", "--out", page)
        assert result.exit_code == 0, result.output
        key = read_key(tmp_path / "study.key.json")
        answers = tmp_path / "answers.jsonl"
        lines = [
            Answer(key["study"], "p", trial["trial"], "A", seconds=2.0).to_line("compare") for trial in key["trials"]
        ]
        answers.write_text("\n".join(lines), encoding="utf-8")
        result = run("study", "report", answers, "--key", tmp_path / "study.key.json")
        assert result.exit_code == 0, result.output
        assert "occlusion preferred to random" in result.stdout
        figures = json.loads(run("study", "report", answers, "--key", tmp_path / "study.key.json", "--json").stdout)
        assert figures["seconds"]["mean"] == 2

    def test_mistakes_are_named(self, tmp_path):
        assert "there is no file" in error(run("study", "report", tmp_path / "a.jsonl", "--key", tmp_path / "k.json"))
        (tmp_path / "k.json").write_text("{}", encoding="utf-8")
        assert "no key of a study" in error(run("study", "report", tmp_path / "a.jsonl", "--key", tmp_path / "k.json"))


def _inverted(rationale):
    return replace(rationale, selection=~rationale.selected())


def _pixels(image):
    import torch

    return torch.from_numpy(np.asarray(image.resize((16, 16)), dtype=np.float32) / 255).movedim(-1, 0)
