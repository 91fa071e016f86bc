"""Language models from folders, adapters and files, in half precision and on the command line."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from commands import run
from language_models import tiny_language_model

import rationales
from rationales.corpus import open_results
from rationales.errors import ModelError, OptionError
from rationales.evaluation.scores.cache import model_fingerprint
from rationales.models.prompt import loading
from rationales.models.prompt.model import PromptModel
from rationales.models.prompt.prefix.readouts import PrefixReading
from rationales.models.prompt.template import PromptTemplate

PROMPT = {"labels": ["good", "bad"], "template": "Review: {text}\nSentiment:"}
TEXT = "I did not like the soup."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    module, tokenizer = tiny_language_model("qwen2")
    path = tmp_path_factory.mktemp("models") / "tiny"
    module.save_pretrained(path)
    tokenizer.save_pretrained(path)
    (path.parent / "prompt.txt").write_text(PROMPT["template"], encoding="utf-8")
    return path


def probabilities(model):
    return rationales.explain(model, TEXT, method="random").probabilities["full"]


def test_a_folder_is_the_module_it_was_saved_from(folder):
    model = rationales.load(folder, **PROMPT)
    assert isinstance(model, PromptModel)
    assert probabilities(model) == pytest.approx(
        probabilities(rationales.load(*tiny_language_model("qwen2"), **PROMPT))
    )


def test_a_prompt_saved_beside_the_weights_is_used(folder, tmp_path):
    module, tokenizer = tiny_language_model("qwen2")
    module.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "prompt.json").write_text(json.dumps(PROMPT), encoding="utf-8")
    assert probabilities(rationales.load(tmp_path)) == probabilities(rationales.load(folder, **PROMPT))


@pytest.fixture
def folder_with_prompt(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    saved = PROMPT | {"chat": False, "separator": "\n", "examples": [["A fine film.", "good"]]}
    (tmp_path / "model" / "prompt.json").write_text(json.dumps(saved), encoding="utf-8")
    return tmp_path / "model"


class TestSavedPrompt:
    def test_all_of_it_is_used(self, folder_with_prompt):
        model = rationales.load(folder_with_prompt)
        assert model.labels == ("good", "bad")
        assert model.prompt("Dull.") == "Review: A fine film.\nSentiment:\ngood\n\nReview: Dull.\nSentiment:"
        assert model.template.separator == "\n"

    def test_either_half_may_be_replaced(self, folder_with_prompt):
        other_labels = rationales.load(folder_with_prompt, labels=["nice", "awful"])
        assert other_labels.labels == ("nice", "awful")
        assert other_labels.template == rationales.load(folder_with_prompt).template
        other_template = rationales.load(folder_with_prompt, template="Text: {text} Mood:")
        assert other_template.labels == ("good", "bad")
        assert other_template.prompt("Dull.") == "Text: Dull. Mood:"
        continued = rationales.load(folder_with_prompt, continuations=["nice", "awful"])
        assert continued.prompt("Dull.") == "Dull."

    @pytest.mark.parametrize("content", ["nope", "[1]", '{"template": "no place"}', '{"template": "{text}", "x": 1}'])
    def test_mistakes_in_it_are_named(self, folder_with_prompt, content):
        (folder_with_prompt / "prompt.json").write_text(content, encoding="utf-8")
        with pytest.raises(ModelError, match=r"prompt.json is no JSON object with labels and template"):
            rationales.load(folder_with_prompt)


def test_a_folder_with_a_tokenizer_but_no_prompt_is_a_language_model(folder):
    tokenizer = tiny_language_model("qwen2")[1]
    with pytest.raises(OptionError, match="is a language model, which classifies by a prompt: labels and template are"):
        rationales.load(folder, tokenizer)


class TestDevices:
    def test_a_module_cannot_be_spread(self):
        with pytest.raises(OptionError, match="a module lies on its devices already"):
            rationales.load(*tiny_language_model("qwen2"), **PROMPT, device="auto")

    def test_a_folder_is_spread(self, folder):
        pytest.importorskip("accelerate")
        assert probabilities(rationales.load(folder, **PROMPT, device="auto")) == pytest.approx(
            probabilities(rationales.load(folder, **PROMPT)), abs=1e-5
        )

    def test_smollm2_is_not_spread(self):
        with pytest.raises(OptionError, match="smollm2 is small and is loaded whole; or name one device"):
            rationales.load("smollm2", **PROMPT, device="auto")

    def test_the_model_of_an_adapter_is_spread(self, folder, adapter, monkeypatch):
        requests, original = [], loading._pretrained

        def pretrained(where, tokenizer, remote, *, spread):
            requests.append((where, spread))
            return original(where, tokenizer, remote, spread=False)

        monkeypatch.setattr(loading, "_pretrained", pretrained)
        rationales.load(adapter, **PROMPT, device="auto")
        assert requests == [(str(folder), True)]


def tuned_model(folder):
    """The model in the folder with an adapter that changes it, and its tokenizer."""
    peft = pytest.importorskip("peft")
    base, tokenizer = tiny_language_model("qwen2")
    base.config._name_or_path = base.name_or_path = str(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
        tuned = peft.get_peft_model(base, config)
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.5)
    return tuned, tokenizer


@pytest.fixture
def adapter(folder, tmp_path):
    tuned_model(folder)[0].save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def test_an_adapter_that_is_switched_off_changes_the_prefix_and_the_empty_text(folder):
    tuned, tokenizer = tuned_model(folder)
    options = PROMPT | {"template": "The river was calm. Review: {text}\nSentiment:", "baseline": "mean"}
    model = rationales.load(tuned, tokenizer, **options, calibrated=True)
    switched_on, fingerprint = probabilities(model), model_fingerprint(model)
    with tuned.disable_adapter():
        assert model_fingerprint(model) != fingerprint  # of the scores in a cache
        switched_off = probabilities(model)
        assert switched_off == probabilities(rationales.load(tuned, tokenizer, **options, calibrated=True))
    assert switched_off != pytest.approx(switched_on, abs=1e-3)
    assert probabilities(model) == switched_on


def test_an_adapter_of_a_classifier_is_no_language_model(adapter):
    config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    (adapter / "adapter_config.json").write_text(json.dumps(config | {"task_type": "SEQ_CLS"}), encoding="utf-8")
    for options in ({}, PROMPT):
        with pytest.raises(ModelError, match=r"another model than a language model \(task_type SEQ_CLS\)"):
            rationales.load(adapter, **options)


def test_an_adapter_changes_its_model(folder, adapter):
    loaded, in_memory = rationales.load(adapter, **PROMPT), rationales.load(*tuned_model(folder), **PROMPT)
    assert probabilities(loaded) == pytest.approx(probabilities(in_memory), abs=1e-5)
    assert probabilities(loaded) != pytest.approx(probabilities(rationales.load(folder, **PROMPT)), abs=1e-5)
    assert np.isfinite(rationales.explain(loaded, TEXT, method="integrated-gradients").scores).all()


def test_half_precision(folder):
    module, tokenizer = tiny_language_model("qwen2")
    half = rationales.load(module.to(torch.bfloat16), tokenizer, **PROMPT)
    result = rationales.explain(half, TEXT, options={"steps": 5})
    assert np.isfinite(result.scores).all()
    single = probabilities(rationales.load(folder, **PROMPT))
    assert result.probabilities["full"]["good"] == pytest.approx(single["good"], abs=0.05)


def test_a_model_spread_by_accelerate(folder):
    pytest.importorskip("accelerate")
    import transformers

    module = transformers.AutoModelForCausalLM.from_pretrained(folder, device_map={"": "cpu"})
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert probabilities(rationales.load(module, tokenizer, **PROMPT)) == pytest.approx(
        probabilities(rationales.load(folder, **PROMPT))
    )


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(ModelError, match="there is no file"):
        rationales.load(tmp_path / "absent.gguf", **PROMPT)


@pytest.mark.slow
def test_smollm2_sees_what_reviews_mean():
    pytest.importorskip("gguf")
    if not {model.name: model.available for model in rationales.list_models()}["smollm2"]:
        pytest.skip("its weights are not installed")
    template = PromptTemplate(
        "Review: {text}\nSentiment:",
        examples=(
            ("The room smelled of smoke and nobody answered the phone.", "negative"),
            ("A lovely walk along the river, and the guide knew every bird.", "positive"),
        ),
    )
    model = rationales.load("smollm2", labels=["positive", "negative"], template=template)
    assert model.networks[0].module.verification.reading is PrefixReading.SHARED
    reviews = {"The soup was cold and the waiter was rude.": "negative", "A wonderful evening, great food.": "positive"}
    for review, label in reviews.items():
        result = rationales.explain(model, review, method="occlusion", options={"window": 1})
        assert result.target == label
        assert np.isfinite(result.scores).all()


def test_smollm2_is_listed():
    assert "smollm2" in [model.name for model in rationales.list_models()]
    with pytest.raises(OptionError, match=r"smollm2 is a language model.*labels and template are missing"):
        rationales.load("smollm2")


class TestCommandLine:
    def options(self, folder):
        return ["--model", str(folder), "--labels", "good,bad", "--template", str(folder.parent / "prompt.txt")]

    def test_explain(self, folder):
        result = run("explain", TEXT, *self.options(folder), "--method", "occlusion", "--json")
        assert result.exit_code == 0, result.output
        explanation = json.loads(result.stdout)
        assert set(explanation["probabilities"]["full"]) == {"good", "bad"}

    def test_continuations(self, folder):
        words = ["--continuations", "cats,dogs", "--target", "cats", "--against", "dogs"]
        result = run("explain", "My pets are", "--model", str(folder), *words, "--method", "occlusion", "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["against"] == "dogs"

    def test_a_template_with_examples(self, folder, tmp_path):
        template = {"template": PROMPT["template"], "examples": [["A fine film.", "good"]]}
        (tmp_path / "few.json").write_text(json.dumps(template), encoding="utf-8")
        options = ["--model", str(folder), "--labels", "good,bad", "--template", str(tmp_path / "few.json")]
        result = run("explain", TEXT, *options, "--method", "occlusion", "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["prompt"] == template

    def test_continuations_without_a_space(self, folder):
        options = ["--continuations", "cats,dogs", "--prompt", "no-space,length-normalised"]
        result = run("explain", "My pets are", "--model", str(folder), *options, "--method", "occlusion", "--json")
        assert result.exit_code == 0, result.output
        expected = {"template": "{text}", "separator": "", "continuations": True, "length_normalised": True}
        assert json.loads(result.stdout)["prompt"] == expected

    def test_an_unknown_switch_is_told(self, folder):
        result = run("explain", TEXT, *self.options(folder), "--prompt", "loud")
        assert result.exit_code == 2
        assert "--prompt takes chat, calibrated" in result.output

    def test_compare_and_evaluate(self, folder, tmp_path):
        compared = run("compare", TEXT, *self.options(folder), "--methods", "occlusion,random", "--json")
        assert compared.exit_code == 0, compared.output
        (tmp_path / "texts.csv").write_text(f"text,label\n{TEXT},bad\nA brilliant joke.,good\n", encoding="utf-8")
        for protocol in ("marc", "eraser-code", "im"):
            arguments = ["--methods", "occlusion", "--protocol", protocol, "--no-cache", "--json"]
            evaluated = run("evaluate", str(tmp_path / "texts.csv"), *self.options(folder), *arguments)
            assert evaluated.exit_code == 0, evaluated.output

    def test_run(self, folder, tmp_path):
        pytest.importorskip("pyarrow")
        (tmp_path / "texts.csv").write_text(f"text\n{TEXT}\nA brilliant joke.\n", encoding="utf-8")
        arguments = ["--out", str(tmp_path / "out"), "--methods", "occlusion", "--json"]
        result = run("run", str(tmp_path / "texts.csv"), *self.options(folder), *arguments)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["explained"] == 2
        manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
        assert manifest["settings"]["model"]["prompt"] == {"template": PROMPT["template"]}
        prompts = [rationale.prompt for rationale in open_results(tmp_path / "out").rationales()]
        assert prompts == [{"template": PROMPT["template"]}] * 2
