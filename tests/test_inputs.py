"""What `explain` and `evaluate` take as a model and as inputs, beside what `load` returns and a list."""

import shutil
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import rationales
from rationales.data.example import Example
from rationales.errors import InputError, OptionError
from rationales.models.catalogue import EMBEDDED
from rationales.pipeline.scoring import lists_inputs

TEXTS = ["A fine film.", "A dull one."]
QUICK = {"method": "random"}


@pytest.fixture(scope="module")
def model():
    return rationales.load()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The embedded model, in a folder as anybody's."""
    return Path(shutil.copytree(files(rationales) / "models" / "embedded", tmp_path_factory.mktemp("a") / "model"))


class Column:
    """As much of a pandas series as can be relied on."""

    def __init__(self, values):
        self.values = values

    def __iter__(self):
        return iter(self.values)

    def to_list(self):
        return list(self.values)


class TestInputs:
    @pytest.mark.parametrize(
        "inputs",
        [np.array(TEXTS), np.array(TEXTS, dtype=object), (text for text in TEXTS), iter(TEXTS), Column(TEXTS),
         dict(enumerate(TEXTS)).values()],
        ids=["array", "objects", "generator", "iterator", "series", "values"],
    )  # fmt: skip
    def test_what_lists_inputs_gives_a_list(self, model, inputs):
        results = rationales.explain(model, inputs, **QUICK)
        assert [result.text for result in results] == TEXTS

    def test_a_tuple_is_a_pair(self, model):
        assert rationales.explain(model, ("A fine film.", "A dull one."), **QUICK).pair == "A dull one."

    def test_an_array_of_numbers_is_a_picture(self):
        assert not lists_inputs(np.zeros((8, 8, 3)))
        assert not lists_inputs(np.zeros(8))

    def test_targets_and_names_may_be_arrays_too(self, model):
        results = rationales.explain(
            model, np.array(TEXTS), target=np.array([0, 1]), names=np.array(["first", "second"]), **QUICK
        )
        assert [(result.target, result.name) for result in results] == [("negative", "first"), ("positive", "second")]

    def test_what_is_no_text_is_named(self, model):
        with pytest.raises(InputError, match="not float"):
            rationales.explain(model, np.array(["a text", float("nan")], dtype=object), **QUICK)

    def test_an_empty_second_text_is_blamed_itself(self, model):
        with pytest.raises(InputError, match="the second text of the pair is empty"):
            rationales.explain(model, ("A fine film.", " "), **QUICK)


class TestModels:
    def test_a_name(self):
        assert rationales.explain(EMBEDDED, "A fine film.", **QUICK).model == EMBEDDED

    def test_a_folder(self, folder):
        for source in (folder, str(folder)):
            assert rationales.explain(source, "A fine film.", **QUICK).model == str(folder)

    def test_a_module_with_its_tokenizer(self, model):
        pair = (model.networks[0].module, model.tokenizer)
        (expected,) = rationales.explain(model, ["A fine film."], method="occlusion")
        (result,) = rationales.explain(pair, ["A fine film."], method="occlusion")
        np.testing.assert_array_equal(result.scores, expected.scores)

    def test_evaluate_takes_the_same(self):
        examples = [Example(name=text, text=text, label="positive") for text in TEXTS]
        table = rationales.evaluate(EMBEDDED, examples, methods=["random"], metrics=["sufficiency"])
        assert [row.title for row in table.rows] == ["random"]

    def test_a_bare_module_needs_its_tokenizer(self, model):
        module = model.networks[0].module
        for ask in (lambda: rationales.explain(module, "hello"), lambda: rationales.evaluate(module, [])):
            with pytest.raises(OptionError, match=r"call model = rationales\.load\(module, tokenizer\) first"):
                ask()

    def test_anything_else_is_told_to_load_first(self):
        with pytest.raises(OptionError, match=r"not int; call model = rationales\.load"):
            rationales.explain(3, "hello")
