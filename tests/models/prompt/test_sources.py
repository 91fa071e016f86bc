"""Language models from folders, adapters and files, in half precision and on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from commands import run
from language_models import tiny_language_model

import rationales
from rationales.errors import ModelError, OptionError
from rationales.models.prompt.model import PromptModel

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


def test_an_adapter_changes_its_model(folder, tmp_path):
    peft = pytest.importorskip("peft")
    base, tokenizer = tiny_language_model("qwen2")
    base.config._name_or_path = base.name_or_path = str(folder)
    tuned = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.5)
    tuned.save_pretrained(tmp_path)
    loaded = rationales.load(tmp_path, **PROMPT)
    given = rationales.load(tuned, tokenizer, **PROMPT)
    assert probabilities(loaded) == pytest.approx(probabilities(given), abs=1e-5)
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
        shown = json.loads(result.stdout)
        assert set(shown["probabilities"]["full"]) == {"good", "bad"}

    def test_continuations(self, folder):
        words = ["--continuations", "cats,dogs", "--target", "cats", "--against", "dogs"]
        result = run("explain", "My pets are", "--model", str(folder), *words, "--method", "occlusion", "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["against"] == "dogs"

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
