"""Parameter randomisation: the figures by hand, which weights change, and methods that pass or fail by construction."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from families import FAMILIES, tiny
from hypothesis import given
from hypothesis import strategies as st
from methods.keyword import keyword_model
from PIL import Image
from reference import sanity as literal
from torch import nn

import rationales
from rationales.data.example import Example
from rationales.errors import InputError, ModelError, OptionError, RationalesError
from rationales.evaluation.sanity.check import SanitySettings, sanity_check
from rationales.evaluation.sanity.score_changes import score_change
from rationales.evaluation.sanity.weight_groups import WeightGroup, randomise, weight_groups
from rationales.methods import Attribution, Method
from rationales.models.image.loading import from_module

EXAMPLES = [
    Example("a", "I did not like the soup, but the bread was good."),
    Example("b", "Dull."),
    Example("c", "The old boat was at the bridge."),
]
COLUMNS = ("sanity-sign-changes", "sanity-score-change", "sanity-rank-correlation")


@dataclass(frozen=True)
class HeadWeight(Method):
    """Scores 1, 2, 3, ... times the sum of the head's weights: they change with the head alone, all in the same way."""

    name: ClassVar[str] = "head-weight"
    summary: ClassVar[str] = "for tests"

    def scores(self, batch, target, progress=None):
        weight = float(batch.networks[0].module.classifier.weight.sum())
        return Attribution((batch.zeros() + torch.arange(1, batch.size[1] + 1)) * weight * batch.rows.real)


@dataclass(frozen=True)
class FailsOnShortTexts(Method):
    """The same finite scores everywhere, and none for texts of at most two words."""

    name: ClassVar[str] = "fails-on-short-texts"
    summary: ClassVar[str] = "for tests"

    def scores(self, batch, target, progress=None):
        short = batch.rows.real.sum(1, keepdim=True) <= 2
        return Attribution(torch.where(short, torch.nan, batch.zeros() + 1.0) * batch.rows.real)


@dataclass(frozen=True)
class Recorder(Method):
    """The same score everywhere; the weights of every model that is explained are kept."""

    name: ClassVar[str] = "recorder"
    summary: ClassVar[str] = "for tests"
    weights: ClassVar[list[dict[str, torch.Tensor]]] = []

    def scores(self, batch, target, progress=None):
        self.weights.append(copy.deepcopy(batch.networks[0].module.state_dict()))
        return Attribution(batch.zeros() + 1.0)


@pytest.fixture
def recorded():
    """Weights of the explained models in their order: the model itself, then the copies."""
    Recorder.weights.clear()
    return Recorder.weights


def changed_weights(before, after):
    """Names of the weights that differ."""
    return {name for name, weight in before.items() if not torch.equal(weight, after[name])}


class TestFigures:
    def test_by_hand(self):
        # signs: + to -, 0 to +, - to -, + to +: one of four; sizes: 1 - (-1), 0 - 1/2, -1/2 - (-1/2), 1/2 - 1/2
        change = score_change(np.array([4.0, 0.0, -2.0, 2.0]), np.array([-2.0, 1.0, -1.0, 1.0]))
        assert (change.sign, change.size) == (0.25, pytest.approx(2.5 / 4))
        # ranks 4 2 1 3 and 1 3.5 2 3.5
        expected = np.corrcoef([4, 2, 1, 3], [1, 3.5, 2, 3.5])[0, 1]
        assert change.rank == pytest.approx(expected)

    @given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=8))
    def test_equals_the_literal_reference(self, pairs):
        before, after = (list(side) for side in zip(*pairs, strict=True))
        change = score_change(np.array(before, dtype=float), np.array(after, dtype=float))
        assert change.sign == pytest.approx(literal.sign_changes(before, after))
        assert change.size == pytest.approx(literal.mean_change(before, after))

    def test_edges(self):
        alone = score_change(np.array([2.0]), np.array([-3.0]))
        assert (alone.sign, alone.size) == (1.0, 2.0)
        assert math.isnan(alone.rank)
        constant = score_change(np.zeros(3), np.ones(3))
        assert (constant.sign, constant.size) == (0.0, 1.0)
        with pytest.raises(InputError, match="cannot be compared"):
            score_change(np.ones(2), np.ones(3))


class TestWeightGroups:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_the_head_is_outside_of_the_encoder_and_every_weight_is_in_one_group(self, family):
        module, _ = tiny(family)
        groups = weight_groups(module)
        names = [name for group in groups for name in group.submodules]
        assert len(names) == len(set(names))
        with_weights = {name for name, child in module.named_modules() if list(child.parameters(recurse=False))}
        assert set(names) == with_weights
        embedding = next(name for name, child in module.named_modules() if child is module.get_input_embeddings())
        assert groups[0].name == "head"
        assert embedding not in groups[0].submodules
        assert groups[0].submodules[-1].split(".")[0] in ("classifier", "score")
        assert sum(weight.numel() for weight in module.parameters()) > 0

    def test_from_the_output_to_the_input(self):
        module, _ = tiny("bert")
        assert [group.name for group in weight_groups(module)] == [
            "head", "bert.pooler", "bert.encoder.layer.1", "bert.encoder.layer.0", "bert.embeddings",
        ]  # fmt: skip

    def test_only_the_named_groups_change_and_the_seed_decides(self):
        module, _ = tiny("bert")
        copies = [copy.deepcopy(module) for _ in range(3)]
        state = torch.random.get_rng_state()
        for number, seed in enumerate((0, 0, 1)):
            randomise(copies[number], weight_groups(module)[:1], seed)
        assert torch.equal(torch.random.get_rng_state(), state)
        changed = {
            name for name, weight in copies[0].named_parameters() if not torch.equal(weight, module.get_parameter(name))
        }
        assert changed <= {"classifier.weight", "classifier.bias"}
        assert "classifier.weight" in changed
        assert torch.equal(copies[0].classifier.weight, copies[1].classifier.weight)
        assert not torch.equal(copies[0].classifier.weight, copies[2].classifier.weight)
        assert float(copies[0].classifier.weight.detach().std()) < 0.1  # initializer_range is 0.02

    @pytest.mark.parametrize("purpose", [(), ("roar",), ("sanity", 0), ("sanity", 1)])
    @pytest.mark.parametrize("configured", [True, False])
    def test_a_fresh_head_is_not_the_one_that_the_models_own_training_began_with(self, purpose, configured):
        """Heads are initialised after torch.manual_seed(s), and training changes them little."""
        group = WeightGroup("head", ("classifier",))
        for seed in range(10):
            module = nn.ModuleDict({"bert": nn.Embedding(3, 384)})
            if configured:
                module.config = SimpleNamespace(initializer_range=0.02)
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                module["classifier"] = nn.Linear(384, 2)  # by its own reset_parameters
                torch.manual_seed(seed)
                if configured:
                    nn.init.normal_(module["classifier"].weight, 0.0, 0.02)
            own = module["classifier"].weight.detach().clone().flatten()
            randomise(module, [group], seed, *purpose)
            fresh = module["classifier"].weight.detach().flatten()
            assert abs(np.corrcoef(own, fresh)[0, 1]) < 0.3
            assert float(fresh.std()) == pytest.approx(float(own.std()), rel=0.2)

    def test_purposes_and_submodules_have_weights_of_their_own_and_order_does_not_matter(self):
        module, _ = tiny("bert")
        groups = weight_groups(module)
        copies = [copy.deepcopy(module) for _ in range(3)]
        for copied, drawn, run in zip(copies, (groups, groups[::-1], groups), (0, 0, 1), strict=True):
            randomise(copied, drawn, 0, "sanity", run)
        weights = [dict(copied.named_parameters()) for copied in copies]
        assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())
        assert not torch.equal(weights[0]["classifier.weight"], weights[2]["classifier.weight"])
        layers = [weights[0][f"bert.encoder.layer.{number}.output.dense.weight"] for number in (0, 1)]
        assert not torch.equal(*layers)

    def test_modules_that_reset_themselves_leave_the_global_random_numbers_alone(self):
        module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        state = torch.random.get_rng_state()
        randomise(module, weight_groups(module), 0)
        first = module[1].weight.detach().clone()
        assert torch.equal(torch.random.get_rng_state(), state)
        torch.rand(3)
        randomise(module, weight_groups(module), 0)
        assert torch.equal(module[1].weight, first)

    def test_modules_without_embeddings_end_in_their_head(self):
        module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Linear(4, 2))
        groups = weight_groups(module)
        assert [group.submodules for group in groups] == [("2",), ("0",)]
        before = module[2].weight.clone()
        randomise(module, groups[:1], 0)
        assert not torch.equal(module[2].weight, before)

    def test_a_model_without_a_head_is_an_error(self):
        with pytest.raises(ModelError, match="no classification head"):
            weight_groups(keyword_model("bread")[0])
        with pytest.raises(ModelError, match="has no weights"):
            weight_groups(nn.ReLU())


class TestCheck:
    model = rationales.load(*tiny("bert", seed=1))

    def test_scores_that_ignore_the_model_do_not_change(self):
        row = sanity_check(self.model, EXAMPLES, ["random"])["random"]
        assert row.cells["sanity-sign-changes"].values == (0.0, 0.0, 0.0)
        assert row.cells["sanity-score-change"].values == (0.0, 0.0, 0.0)
        assert row.cells["sanity-rank-correlation"].estimate.mean == pytest.approx(1.0)
        assert math.isnan(row.cells["sanity-rank-correlation"].values[1]) == (len(["Dull", "."]) < 2)

    def test_inputs_without_scores_are_named_with_the_reason(self):
        table = sanity_check(self.model, EXAMPLES, [FailsOnShortTexts()])
        row = table["fails-on-short-texts"]
        assert list(row.failures) == ["b"]
        assert "no finite scores" in row.failures["b"]
        assert "no scores for 1 of 3 inputs" in table.to_markdown()

    def test_the_figures_are_means_over_the_runs(self):
        """The sign of the head's sum decides all signs; a sign that changes moves every score x to -x."""
        table = sanity_check(self.model, EXAMPLES, [HeadWeight()], settings=SanitySettings(5), seed=3)
        original = float(self.model.networks[0].module.classifier.weight.detach().sum())
        turned = []
        for run in range(5):
            copied = copy.deepcopy(self.model.networks[0].module)
            randomise(copied, weight_groups(copied)[:1], 3, "sanity", run)
            turned.append(float(copied.classifier.weight.detach().sum()) * original < 0)
        assert 0 < sum(turned) < 5
        values = table["head-weight"].cells["sanity-sign-changes"].values
        assert values == pytest.approx([sum(turned) / 5] * 3)
        n = len(self.model.encode([self.model.read(EXAMPLES[0].text, None)])[0].units)
        mean_size = 2 * sum(range(1, n + 1)) / n / n  # |x - (-x)| with the largest 1
        change = table["head-weight"].cells["sanity-score-change"].values[0]
        assert change == pytest.approx(sum(turned) / 5 * mean_size, rel=1e-5)

    def test_the_mean_of_every_run_is_kept(self):
        """A head whose sum changes its sign turns all signs: the mean of a run is 0 or 1."""
        table = sanity_check(self.model, EXAMPLES, [HeadWeight()], settings=SanitySettings(5), seed=3)
        row = table["head-weight"]
        runs = row.run_means["sanity-sign-changes"]
        assert set(runs) == {0.0, 1.0}
        for name, means in row.run_means.items():
            assert len(means) == 5
            assert np.mean(means) == pytest.approx(row.cells[name].estimate.mean)
        assert "Lowest and highest mean of the 5 random heads: sanity-sign-changes head-weight .000 to 1.000" in str(
            table
        )
        assert "p values are over inputs, for these draws alone" in table.recipe
        assert rationales.Table.from_json(table.to_json())["head-weight"].run_means == row.run_means
        alone = sanity_check(self.model, EXAMPLES, [HeadWeight()], settings=SanitySettings(1))
        assert "One random head: how far figures differ between random heads is not known" in str(alone)

    def test_means_of_runs_are_over_the_inputs_with_scores_in_all_of_them(self):
        row = sanity_check(self.model, EXAMPLES, [FailsOnShortTexts()])["fails-on-short-texts"]
        assert row.run_means["sanity-score-change"] == (0.0, 0.0, 0.0)
        assert all(math.isnan(value) for value in row.run_means["sanity-rank-correlation"])

    def test_every_run_draws_another_head_and_nothing_else(self, recorded):
        sanity_check(self.model, EXAMPLES, [Recorder()], settings=SanitySettings(3))
        original, *heads = recorded
        assert len(heads) == 3
        for head in heads:
            assert changed_weights(original, head) <= {"classifier.weight", "classifier.bias"}
        assert len({tuple(head["classifier.weight"].flatten().tolist()) for head in recorded}) == 4

    def test_cascading_randomises_one_group_more_in_every_step_and_never_draws_it_again(self, recorded):
        module = self.model.networks[0].module
        matrices = {name for name, weight in module.named_parameters() if weight.dim() > 1}
        groups = [
            {name for name in matrices if name.rpartition(".")[0] in group.submodules}
            for group in weight_groups(module)
        ]
        sanity_check(self.model, EXAMPLES, [Recorder()], cascade=True, settings=SanitySettings(1))
        assert len(recorded) == 1 + len(groups)
        for before, after, group in zip(recorded, recorded[1:], groups, strict=False):
            assert changed_weights(before, after) & matrices == group
        assert changed_weights(recorded[0], recorded[-1]) >= matrices  # at the end all of them

    @pytest.mark.parametrize("method", ["marc-instant", "aml-pretrained", "aml-finetuned"])
    def test_methods_with_a_masker_are_refused_before_any_work(self, method, recorded):
        with pytest.raises(
            OptionError, match=f"{method} cannot be checked with random weights: its masker was trained"
        ):
            sanity_check(self.model, EXAMPLES, [Recorder(), method])
        assert recorded == []

    def test_gradients_change_and_the_model_stays(self):
        module = self.model.networks[0].module
        before = copy.deepcopy(module.state_dict())
        table = sanity_check(self.model, EXAMPLES, ["input-x-gradient"], settings=SanitySettings(2))
        assert table["input-x-gradient"].cells["sanity-score-change"].estimate.mean > 0.1
        assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
        assert table.metrics == COLUMNS
        assert "sanity-sign-changes ↑ | sanity-score-change ↑ | sanity-rank-correlation ↓" in str(table)
        assert "Randomised: the classification head, 2 times" in str(table)

    def test_cascading_ends_with_all_weights_random(self):
        table = sanity_check(self.model, EXAMPLES, ["saliency"], cascade=True, settings=SanitySettings(1))
        curve = table["saliency"].curves["sanity-rank-correlation"]
        assert len(curve) == 5
        assert curve[-1] == pytest.approx(table["saliency"].cells["sanity-rank-correlation"].estimate.mean)
        assert "Rank correlation after each step (head, bert.pooler, bert.encoder.layer.1" in str(table)
        assert rationales.Table.from_json(table.to_json())["saliency"].curves == table["saliency"].curves

    def test_an_interrupted_check_goes_on(self, tmp_path):
        first = sanity_check(self.model, EXAMPLES, ["occlusion"], cache=tmp_path)
        files = set(tmp_path.rglob("*.safetensors"))
        assert len(files) == 2 * 4 * 3  # occlusion and random, the model and three copies, three texts
        stamps = {path: path.stat().st_mtime_ns for path in files}
        again = sanity_check(self.model, EXAMPLES, ["occlusion"], cache=tmp_path)
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")} == stamps
        assert again["occlusion"].cells == first["occlusion"].cells

    def test_images(self, tmp_path):
        class Pooled(nn.Module):
            def __init__(self):
                super().__init__()
                self.features, self.classifier = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

            def forward(self, pixels):
                return self.classifier(self.features(pixels).relu().mean((2, 3)))

        def preprocess(image):
            return torch.from_numpy(np.asarray(image.resize((12, 12)), dtype=np.float32) / 255).permute(2, 0, 1)

        torch.manual_seed(0)
        model = from_module(Pooled().eval(), preprocess, ["a", "b"], "pooled", baselines=["black"])
        path = tmp_path / "noise.png"
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (12, 12, 3), dtype=np.uint8)).save(path)
        table = sanity_check(model, [Example("noise", image=path)], ["saliency"], cascade=True)
        assert table["random"].cells["sanity-score-change"].values == (0.0,)
        assert table["saliency"].cells["sanity-score-change"].values[0] > 0.05
        assert "(head, features)" in table.recipe

    def test_by_its_name(self):
        table = rationales.evaluate(self.model, EXAMPLES, ["saliency"], metrics=["sanity"], study={"runs": 1})
        assert table.metrics == COLUMNS
        cascade = rationales.evaluate(self.model, EXAMPLES, ["saliency"], metrics=["sanity-cascade"], study={"runs": 1})
        assert len(cascade["saliency"].curves["sanity-score-change"]) == 5

    def test_mistakes(self):
        with pytest.raises(OptionError, match="table of its own"):
            rationales.evaluate(self.model, EXAMPLES, ["saliency"], metrics=["sanity", "deletion"])
        with pytest.raises(OptionError, match="runs is a whole number from 1, not 0"):
            SanitySettings(0)
        with pytest.raises(OptionError, match="no setting 'rums'"):
            rationales.evaluate(self.model, EXAMPLES, ["saliency"], metrics=["sanity"], study={"rums": 1})
        with pytest.raises(OptionError, match=r"training examples .* are for roar or roar-bert"):
            rationales.evaluate(self.model, EXAMPLES, ["saliency"], metrics=["sanity"], train=EXAMPLES)
        with pytest.raises(OptionError, match=r"training examples .* are for roar or roar-bert"):
            rationales.evaluate(self.model, EXAMPLES, ["saliency"], train=EXAMPLES)
        with pytest.raises(RationalesError, match="no examples"):
            sanity_check(self.model, [], ["saliency"])
