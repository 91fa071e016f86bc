"""Table 2, from data to report, on tiny networks and tiny pictures; and the claims of the paper on its own figures."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("skimage")
from methods.test_every_method_images import network
from PIL import Image

import rationales
from rationales.data import Example
from rationales.errors import ModelError, OptionError
from rationales.evaluation.tables.table import Table
from rationales.experiments.marc_table2 import claims as claims_module
from rationales.experiments.marc_table2 import row_specs
from rationales.experiments.marc_table2.model_run import ModelRun
from rationales.experiments.marc_table2.row_specs import ROWS
from rationales.experiments.marc_table2.run import TableSettings, published, reproduce
from rationales.experiments.registry import EXPERIMENTS, Request
from rationales.methods import METHODS
from rationales.models.image.loading import from_pixels
from rationales.models.image.reading import Fit

QUICK = {
    "marc": {"steps": 4, "cell": 8},
    "marc-default": {"steps": 6},
    "marc-fine": {"steps": 6},
    "m-perturb": {"steps": 3, "cell": 8},
    "extremal": {"steps": 3, "cell": 8, "areas": "0.2"},
    "integrated-gradients": {"steps": 3},
    "occlusion": {"window": 16, "stride": 16},
    "lime": {"samples": 20},
    "kernel-shap": {"samples": 20},
    "smooth-grad": {"samples": 2},
    "gradient-shap": {"samples": 2},
    "rise": {"samples": 20},
}


def one_row_table(row):
    return Table((row,), tuple(row.cells), ("a",), None, "", "model", "black", 0, {})


CHEAP = ["saliency", "guided-bp", "attention", "marc", "marc-default"]


@pytest.fixture
def examples(tmp_path):
    """Pictures of 32 pixels with a class and a box."""
    generator = np.random.default_rng(0)
    written = []
    for number in range(3):
        path = tmp_path / f"{number}.png"
        Image.fromarray(generator.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(path)
        written.append(Example(name=path.name, label=str(number), image=path, boxes=((4, 4, 20, 20),)))
    return written


def tiny_cnn():
    return from_pixels(network(), Fit("crop", 32, 32), (0.5,) * 3, (0.5,) * 3, ["0", "1", "2"], "tiny-cnn")


def tiny_vit():
    import transformers

    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.ViTConfig(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=32,
            patch_size=8, num_labels=3,
        )  # fmt: skip
        module = transformers.ViTForImageClassification(config).eval()
    return from_pixels(module, Fit("crop", 32, 32), (0.5,) * 3, (0.5,) * 3, ["0", "1", "2"], "tiny-vit")


def settings_of(examples, **arguments):
    models = {model.name: (model, examples) for model in (tiny_cnn(), tiny_vit())}
    return TableSettings(models=models, options=QUICK, **arguments)


def test_the_table_of_two_models_from_pictures_to_report(examples, tmp_path):
    lines = []
    request = Request(rows=CHEAP, out=tmp_path, log=lines.append)
    report = reproduce(request, settings_of(examples))
    titles = [row.title for row in report.table.rows]
    assert {"Random", "Centred Gaussian", "Saliency", "MaRC, the paper's settings"} <= set(titles)
    assert report.table.protocol.name == "marc-images"
    assert len(report.table.protocol.levels) == 19
    assert len(report.table.protocol.removal) == 4
    assert set(report.table["Saliency"].cells) == {"sufficiency", "comprehensiveness", "inside-top", "pointing"}
    ((name, vit_table, _),) = report.further_tables
    assert name == "tiny-vit"
    text = report.to_markdown()
    assert "## The paper's claims" in text
    assert "tiny-vit" in text
    assert "| method | s / picture | forward passes | with a backward pass | steps |" in text
    assert "needs the attention weights" in report.table["Attention"].not_applicable  # a convolutional network has none
    assert "Attention: n/a" in text
    assert "sufficiency" in vit_table["Attention"].cells
    assert not vit_table["Guided backpropagation"].cells  # it would be the plain gradient
    assert report.table["MaRC, the paper's settings"].steps == 4
    assert report.table["MaRC, the paper's settings"].settled == 0
    assert len(lines) == 2 * len(titles)


def test_finished_rows_are_not_computed_again(examples, tmp_path):
    models = {"tiny-cnn": (tiny_cnn(), examples)}
    settings = TableSettings(models=models, options=QUICK)
    first = reproduce(Request(rows=["saliency"], out=tmp_path), settings)
    stored = tmp_path / "models" / "tiny-cnn.json"
    assert {row.title for row in Table.from_json(stored).rows} == {"Saliency", "Random", "Centred Gaussian"}
    lines = []
    again = reproduce(Request(rows=["saliency"], out=tmp_path, log=lines.append), settings)
    assert lines == []
    assert [row.cells for row in again.table.rows] == [row.cells for row in first.table.rows]
    reproduce(Request(rows=["saliency"], out=tmp_path, seed=1, log=lines.append), settings)
    assert "another precision or seed" in lines[0]
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("key", "forward", "backward"),
    [
        ("rise", 3 * 20, 0),  # 20 samples on each of three baselines
        # 16 channels on each of three baselines, a pass for the maps, and one for both pictures that finds the layer
        ("score-cam", 3 * 16 + 1 + 1 / 2, 1 / 2),
        ("occlusion", 4 + 1, 0),  # four windows on one baseline, and the whole picture
        ("integrated-gradients", 3, 3),  # steps, on one baseline
        ("saliency", 1, 1),
        ("random", 0, 0),
    ],
)
def test_passes_of_a_picture_are_counted(examples, key, forward, backward):
    row = ModelRun(tiny_cnn(), examples[:2], Request(), QUICK).measure(ROWS[key])
    assert (row.forward_passes, row.backward_passes) == (forward, backward)
    assert Table.from_dict(one_row_table(row).to_dict()).rows[0].forward_passes == forward


def test_the_report_has_the_counted_passes(examples):
    settings = TableSettings(models={"tiny-cnn": (tiny_cnn(), examples)}, options=QUICK)
    text = reproduce(Request(rows=["rise", "attention"]), settings).to_markdown()
    (costs,) = [line for line in text.split("## Seconds and passes")[1].splitlines() if line.startswith("| RISE")]
    assert costs.endswith("| 60 | 0 | – |")
    assert "| Attention | n/a | n/a | n/a | n/a |" in text


def test_a_row_that_fails_is_not_called_inapplicable_and_is_computed_again(examples, tmp_path, monkeypatch):
    settings = TableSettings(models={"tiny-cnn": (tiny_cnn(), examples)}, options=QUICK)
    request = Request(rows=["saliency"], out=tmp_path)
    whole = type(ROWS["saliency"].build())

    def out_of_memory(*_, **__):
        raise ModelError("the model does not fit into memory")

    with monkeypatch.context() as patch:
        patch.setattr(whole, "scores", out_of_memory)
        report = reproduce(request, settings)
    assert report.table["Saliency"].failed == "the model does not fit into memory"
    assert "| Saliency | failed | failed |" in report.to_markdown()
    assert "Saliency: failed (the model does not fit into memory)." in report.to_markdown()
    stored = Table.from_json(tmp_path / "models" / "tiny-cnn.json")
    assert stored["Saliency"].failed
    assert reproduce(request, settings).table["Saliency"].cells


def test_a_row_that_does_not_apply_is_kept(examples, tmp_path):
    settings = TableSettings(models={"tiny-cnn": (tiny_cnn(), examples)}, options=QUICK)
    request = Request(rows=["attention"], out=tmp_path)
    reproduce(request, settings)
    lines = []
    again = reproduce(Request(rows=["attention"], out=tmp_path, log=lines.append), settings)
    assert lines == []
    assert again.table["Attention"].not_applicable


def test_no_row_is_begun_when_time_is_up(examples, tmp_path):
    models = {"tiny-cnn": (tiny_cnn(), examples)}
    calls = []

    def stop():
        calls.append(None)
        return len(calls) > 1

    report = reproduce(Request(rows=["saliency"], out=tmp_path), TableSettings(models=models, options=QUICK, stop=stop))
    assert len(report.table.rows) == 1


@pytest.mark.slow
def test_every_row_on_both_models(examples):
    report = reproduce(Request(), settings_of(examples))
    registered = [spec for spec in ROWS.values() if spec.registered]
    assert len(report.table.rows) == len(registered)
    for row in report.table.rows:
        assert row.cells or row.not_applicable


def test_a_method_that_is_not_registered_has_no_row(monkeypatch):
    monkeypatch.setattr(
        "rationales.experiments.marc_table2.row_specs.METHODS",
        {name: method for name, method in METHODS.items() if name != "saliency"},
    )
    assert "saliency" not in [spec.key for spec in row_specs.select_rows(None)]
    assert "saliency" not in row_specs.names()
    with pytest.raises(OptionError, match="is not there"):
        row_specs.select_rows(["saliency"])


def test_an_unknown_row_is_refused():
    with pytest.raises(OptionError, match="there is no row 'gradcam'"):
        row_specs.select_rows(["gradcam"])


def test_every_row_of_the_paper_has_its_figures():
    """Table 2 has 9 methods on ResNet-101 and 11 on ViT-B/16."""
    counts = dict.fromkeys((row_specs.CONVOLUTIONAL, row_specs.TRANSFORMER), 0)
    for spec in ROWS.values():
        for family in spec.published:
            counts[family] += 1
    assert counts == {row_specs.CONVOLUTIONAL: 9, row_specs.TRANSFORMER: 11}
    assert "| Grad-CAM | .197 | .600 | .161 | .640 |" in published()


def test_the_papers_claims_on_its_own_figures():
    """Best sufficiency on both; ahead of it in comprehensiveness, on the ViT, only what section 5 names."""
    sufficiency, behind, exceptions, near = claims_module.claims({})[:4]
    assert [verdict.holds for verdict in sufficiency.verdicts] == [True, True]
    assert [verdict.holds for verdict in behind.verdicts] == [True, True]
    assert [verdict.holds for verdict in exceptions.verdicts] == [True, True]
    assert [verdict.holds for verdict in near.verdicts] == [False, False]  # .641 and .658 are more than .02 away
    assert all(verdict.word == "true of the figures, not tested" for verdict in sufficiency.verdicts)


def test_a_claim_that_is_true_of_the_means_needs_a_test():
    """MaRC's sufficiency is lower on each of ten pictures: p = 2 / 2^10."""
    from rationales.evaluation.tables.table import Cell, TableRow

    def row(key, sufficiency):
        cells = {"sufficiency": Cell(tuple(sufficiency)), "comprehensiveness": Cell((0.5,) * 10)}
        return TableRow(ROWS[key].title, cells)

    rows = (row("marc", np.linspace(0.1, 0.2, 10)), row("saliency", np.linspace(0.3, 0.5, 10)))
    table = Table(rows, ("sufficiency", "comprehensiveness"), tuple("abcdefghij"), None, "", "m", "b", 0, {})
    verdict = claims_module.claims({"m": table})[0].verdicts[-1]
    assert verdict.holds
    assert verdict.word == "holds"
    assert verdict.p == pytest.approx(2 / 2**10, rel=0.5)


def test_a_transformer_is_told_from_a_convolutional_network():
    assert ModelRun(tiny_vit(), [], Request()).family == row_specs.TRANSFORMER
    assert ModelRun(tiny_cnn(), [], Request()).family == row_specs.CONVOLUTIONAL


def test_the_centred_gaussian_is_highest_in_the_middle(examples):
    result = rationales.explain(tiny_cnn(), examples[0].image, method=ROWS["centred-gaussian"].build())
    assert result.scores.reshape(32, 32)[15:17, 15:17].min() == result.scores.max()
    assert result.scores.reshape(32, 32)[0, 0] == result.scores.min()


def test_without_any_model_the_error_names_all(tmp_path, monkeypatch):
    def missing(name, **_):
        raise ModelError(f"no weights of {name}")

    monkeypatch.setattr("rationales.experiments.marc_table2.run.load", missing)
    with pytest.raises(ModelError, match=r"resnet-50.*vit-birds"):
        EXPERIMENTS["marc-table2"].run(Request(data=tmp_path))


@pytest.mark.parametrize("model", [tiny_cnn, tiny_vit])
def test_the_figures_are_one_sheet_for_all_methods_and_pictures(examples, tmp_path, model):
    from rationales.experiments.marc_table2.figures import FigureSettings
    from rationales.experiments.marc_table2.figures import reproduce as reproduce_figures

    out = tmp_path / "out"
    out.mkdir()
    rows = ["saliency", "attention", "marc"]
    report = reproduce_figures(
        Request(data=examples[0].image.parent, rows=rows, limit=2), FigureSettings(model(), QUICK)
    )
    titles = [row.title for row in report.table.rows]
    on_vit = model is tiny_vit
    assert ("MaRC, discriminative (3b)" in titles) == ("MaRC, indicative (3c)" in titles) == on_vit
    assert ("Attention" in titles) == on_vit
    assert ("n/a" in report.to_markdown()) != on_vit
    png, page = report.draw_figures(out)
    with Image.open(png) as sheet:
        assert sheet.width > 160 * (1 + len(titles))
    text = page.read_text()
    assert text.count("<img") == 2 * (1 + 2 * len(titles))
    assert "<script" not in text


def test_the_figures_tell_failures_from_methods_that_do_not_apply(examples, monkeypatch):
    from rationales.experiments.marc_table2.figures import FigureSettings
    from rationales.experiments.marc_table2.figures import reproduce as reproduce_figures

    def broken(*_, **__):
        raise ModelError("out of memory")

    monkeypatch.setattr(type(ROWS["saliency"].build()), "scores", broken)
    request = Request(data=examples[0].image.parent, rows=["saliency", "attention", "input-x-gradient"], limit=1)
    sections = dict(reproduce_figures(request, FigureSettings(tiny_cnn(), QUICK)).sections)
    assert sections["Failed"] == "- Saliency: failed (out of memory)"
    assert sections["Not applicable"].startswith("- Attention: n/a (raw-attention needs")


def test_the_figures_need_pictures():
    with pytest.raises(OptionError, match="give --data"):
        EXPERIMENTS["marc-figures"].run(Request())
