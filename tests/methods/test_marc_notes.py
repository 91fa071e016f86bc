"""What MaRC says of an optimisation that did not go well."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import rationales
from methods.keyword import keyword_model
from rationales.models.image.loading import from_module

TEXT = "The boat drifted slowly towards the old bridge and nobody laughed at the joke again that day"
WORDS = ("boat", "slowly", "towards", "old", "bridge", "nobody", "laughed", "joke", "again", "day")
COOL_REVIEW = (
    "The book on which this is based was witty and cruel. The film is neither. It has been cleaned until nothing was "
    "left, and what remains are nice costumes, long looks and a string orchestra that never stops."
)
KIND_REVIEW = (
    "My children loved every minute of it, and so did I, although I had expected another loud cartoon about talking "
    "animals. The jokes work for all ages."
)
ONE_MASK = {"mask_weight": 1.0, "level_weight": 0.0, "level_form": "log", "warmup_steps": 0, "initial_w": 1.2}
ONE_MASK |= {"field": "gaussian"}


@pytest.fixture(scope="module")
def model():
    return rationales.load(*keyword_model("bridge", "joke"))


def kinds(model, **options):
    return {note.kind for note in rationales.explain(model, TEXT, options=options).notes}


def test_a_mask_that_its_stopping_rule_never_accepted_is_reported(model):
    assert "not-converged" in kinds(model, schedule="constant", stop="plateau", steps=12)


def test_a_mask_whose_gradients_still_agree_at_the_last_step_is_reported_under_a_falling_rate_too():
    """A sixth of the steps, by the embedded model; and all of them, of a text of two units, too."""
    texts = [COOL_REVIEW, KIND_REVIEW, "Avoid."]
    embedded = rationales.load()
    few, all_steps = (rationales.explain(embedded, texts, options={"steps": steps}) for steps in (3, 18))
    moving = [["not-converged" in {note.kind for note in result.notes} for result in run] for run in (few, all_steps)]
    assert moving == [[True, True, False], [False, False, False]]


def test_a_mask_that_grows_where_one_word_decides_is_not_called_moving(model):
    """The gradient at a keyword has the same sign in every step, and the order of the words stays."""
    assert "not-converged" not in kinds(model)


def test_a_rationale_of_nearly_all_words_is_reported_under_the_default():
    """Ten words that count alike: seven of them have nine tenths of the probability, and six do not."""
    needed = rationales.load(*keyword_model(*WORDS, strength=4.0))
    notes = rationales.explain(needed, " ".join(WORDS)).notes
    assert "keeps-everything" in {note.kind for note in notes}


def test_a_model_whose_answer_depends_on_no_word_is_reported_under_the_default():
    constant = rationales.load(*keyword_model("absent"))
    assert "keeps-nothing" in {note.kind for note in rationales.explain(constant, TEXT).notes}


def test_a_mask_that_keeps_everything_is_told(model):
    assert "keeps-everything" in kinds(model, **ONE_MASK, sparsity=0.0, complement=0.0, steps=40)


def test_a_mask_that_keeps_nothing_is_told(model):
    assert "keeps-nothing" in kinds(model, **ONE_MASK, sufficiency=0.0, complement=0.0, learning_rate=0.3)


def test_an_ordinary_one_gives_no_cause_for_notes(model):
    assert not kinds(model) & {"not-converged", "keeps-everything", "keeps-nothing"}


class _PixelWeights(nn.Module):
    """The logit is a weighted sum of the pixels' brightness: weights in the pattern that a mask must show."""

    def __init__(self, weights):
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        logit = (pixels.mean(1) * self.weights).sum((1, 2))
        return torch.stack([-logit, logit], 1) / 2


def image_notes(weights, **options):
    side = len(weights)
    preprocess = pixel_reader(side)
    model = from_module(_PixelWeights(weights).eval(), preprocess, ["no", "yes"], "weights", baselines=("black",))
    white = np.full((side, side, 3), 255, dtype=np.uint8)
    return {note.kind for note in rationales.explain(model, white, target="yes", options=options).notes}


def pixel_reader(side):
    def preprocess(image):
        return torch.from_numpy(np.asarray(image.resize((side, side)), dtype=np.float32) / 255).permute(2, 0, 1)

    return preprocess


FREE_PIXELS = {"field": "free", "cell": 1, "steps": 40}


def test_a_checkerboard_and_noise_in_the_mask_of_an_image_are_reported():
    board = (torch.arange(16)[:, None] + torch.arange(16)) % 2 * 0.2 - 0.1
    noise = 0.1 * torch.randn(16, 16, generator=torch.Generator().manual_seed(0))
    assert "noisy-mask" in image_notes(board, **FREE_PIXELS)
    assert "noisy-mask" in image_notes(noise, **FREE_PIXELS)


def test_a_region_is_no_noise_even_if_every_pixel_is_free():
    region = torch.full((16, 16), -0.05)
    region[3:10, 4:12] = 0.1
    assert "noisy-mask" not in image_notes(region, **FREE_PIXELS)
    assert "noisy-mask" not in image_notes(region)


def test_words_that_alternate_are_reported_and_single_words_are_not():
    """Every second word is evidence, each its own mask value; two words of sixteen are an ordinary result."""
    evidence = ("boat", "slowly", "old", "nobody", "joke", "day", "bridge", "again", "laughed", "towards", "drifted")
    alternating = rationales.load(*keyword_model(*evidence, strength=6.0))
    text = " the ".join(evidence)
    notes = {note.kind: note for note in rationales.explain(alternating, text, options={"preset": "words"}).notes}
    assert "set field=gaussian" in notes["noisy-mask"].message


def test_words_that_alternate_are_reported_under_the_default_in_a_long_text_whose_spans_are_smooth():
    """103 words, every second one evidence: the rationale is of spans, over the words in between."""
    alternating = rationales.load(*keyword_model("joke", strength=0.12))
    result = rationales.explain(alternating, " the ".join(52 * ["joke"]))
    assert (len(result.units), result.selected_by) == (103, "spans")
    assert "noisy-mask" in {note.kind for note in result.notes}


def test_ordinary_results_are_not_called_noisy(model):
    long_text = f"{TEXT}, while the others went home early."
    for preset in ("default", "words"):
        notes = rationales.explain(model, long_text, options={"preset": preset}).notes
        assert "noisy-mask" not in {note.kind for note in notes}
