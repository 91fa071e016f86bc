"""Texts as they come: whatever is in them, every unit has a score and the text can be rebuilt from its units."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from families import tiny
from hypothesis import assume, given, settings
from strategies import invisible, texts

import rationales

QUICK = {"steps": 2, "stop": "steps"}
FAMILIES = ["bert", "roberta", "xlm-roberta", "gpt2"]  # one of each kind of tokenizer

ODD = {
    "emoji": "I ❤️ it 👍🏽 👩‍👩‍👧‍👦 🇩🇪🇫🇷 1️⃣ 🙂🙂🙂",
    "right to left": "هذا الفيلم ليس جيدًا على الإطلاق! זה לא היה טוב (בכלל).",
    "mixed directions": "He by_label \u202bשלום\u202c and left\u200e.",
    "combining": "e\u0301te\u0301 a\u0327\u0308 Z\u0351\u036b\u0343a\u0300\u0301\u0302lgo o\u0323\u0301",
    "chinese": "这部电影一点也不好看。我不喜欢！",
    "thai": "หนังเรื่องนี้ไม่ดีเลย",
    "single": "a",
    "single wide": "好",
    "single emoji": "🙂",
    "punctuation": "?!... -- ;;; (((",
    "one word": "the " * 500,
    "no spaces": "abcdefghij" * 500,
    "no spaces, no letters": "-=" * 2500,
    "joiners": "a\u200db\u200cc \u200d\u200d d\u2060e",
    "controls": "a\x00b\x07c \x1b[31mred\x7f\x85 end",
    "line ends": "one\r\ntwo\rthree\n\n\n\tfour\u2028five\u2029",
    "blanks": "  \u00a0 soup \u3000\u2003 bread  ",
    "much space": "soup" + " " * 300 + "bread" + "\n" * 200,
    "astral": "𝒢𝒶𝓉𝓈𝒷𝓎 𐍈 \U0010ffff \ue000",
    "replacement": "a \ufffd b\ufffdc",
    "compatibility": "ﬁne ½ ² ﷺ Ａ ㎏ ǅ İstanbul straße",
    "marks of tokenizers": "[CLS] [MASK] <s> </s> <unk> ## ▁x Ġy @@ </w>",
    "byte order": "\ufeffsoup",
}


@pytest.fixture(
    scope="module", params=[*FAMILIES[:2], *(pytest.param(family, marks=pytest.mark.slow) for family in FAMILIES[2:])]
)
def model(request):
    return rationales.load(*tiny(request.param))


def check(result, text):
    """Units in order, gaps without anything to see, the text byte for byte, a finite score each."""
    rebuilt, cursor = "", 0
    for unit in result.units:
        gap = text[cursor : unit.start]
        assert all(invisible(mark) for mark in gap)
        assert unit.text
        rebuilt += gap + unit.text
        cursor = unit.end
    assert all(invisible(mark) for mark in text[cursor:])
    assert (rebuilt + text[cursor:]).encode() == text.encode()
    assert result.scores.shape == (len(result.units),)
    assert np.isfinite(result.scores).all()
    assert all(0 <= value <= 1 for by_label in result.probabilities.values() for value in by_label.values())


def test_odd_texts_alone_and_together(model):
    together = rationales.explain(model, list(ODD.values()), options=QUICK, names=list(ODD))
    for result, text in zip(together, ODD.values(), strict=True):
        check(result, text)
    for number, text in enumerate(ODD.values()):
        if len(text) < 100:
            alone = rationales.explain(model, text, options=QUICK)
            assert alone.units == together[number].units
            assert np.allclose(alone.scores, together[number].scores, atol=1e-3)


def test_odd_texts_as_pairs(model):
    for text in (text for text in ODD.values() if len(text) < 100):
        result = rationales.explain(model, (text, "The soup"), method="random")
        assert [unit.text for unit in result.units if unit.text_index == 1] == ["The", "soup"]
        check(rationales.explain(model, text, method="random"), text)


@settings(max_examples=15)
@given(text=texts)
def test_any_text(model, text):
    assume(text.strip() and model.tokenizer(text, add_special_tokens=False)["input_ids"])
    check(rationales.explain(model, text, options=QUICK), text)


@pytest.mark.parametrize("unit", ["token", "sentence"])
def test_other_units_rebuild_the_text_too(unit):
    model = rationales.load(*tiny("roberta"), unit=unit)
    for text, result in zip(ODD.values(), rationales.explain(model, list(ODD.values()), method="random"), strict=True):
        check(result, text)


def test_five_hundred_times_one_word(model):
    """Equal words are told apart by where they stand; each has its own score."""
    result = rationales.explain(model, ODD["one word"], options=QUICK)
    assert [unit.text for unit in result.units] == ["the"] * 500
    assert [unit.start for unit in result.units] == list(range(0, 2000, 4))
    assert result.segments > 5


def test_results_survive_saving(tmp_path, model):
    for number, result in enumerate(rationales.explain(model, list(ODD.values()), method="random")):
        path = tmp_path / f"{number}.json"
        result.save(path)
        again = rationales.Rationale.load(path)
        assert again.text == result.text
        assert again.units == result.units
        assert np.array_equal(again.scores, result.scores)


LONG = """
import json, resource, sys
sys.path.insert(0, "tests")
import rationales
from families import CORPUS, tiny
from rationales.models.batch import execution
execution.CPU_BYTES = 32 * 2**20  # far less than all rows would need at once
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
words = " ".join(CORPUS).split()
model = rationales.load(*tiny("bert"))
rationales.explain(model, " ".join(words), options={"steps": 2})
before = peak()
text = "  ".join(words[number % len(words)] for number in range(20_000)) + "\\n"
result = rationales.explain(model, text, options={"steps": 1})
rebuilt, cursor = [], 0
for unit in result.units:
    rebuilt += [text[cursor:unit.start], unit.text]
    assert not text[cursor:unit.start].strip()
    cursor = unit.end
assert "".join(rebuilt) + text[cursor:] == text
assert len(result.scores) == len(result.units) >= 20_000
assert all(score == score and abs(score) < float("inf") for score in result.scores.tolist())
print(json.dumps({"segments": result.segments, "more": peak() - before, "units": len(result.units)}))
"""


@pytest.mark.slow
def test_twenty_thousand_words_in_bounded_memory():
    """More than a thousand segments; run at once they would need half a gigabyte for activations alone."""
    done = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["segments"] > 1000
    assert result["more"] < 300, result  # MiB
