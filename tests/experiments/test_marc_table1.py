"""Table 1 of the MaRC paper: its rows and claims as printed, and the whole way on reviews with a known cause."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from commands import error
from commands import run as command
from reviews import known_model, movies

import rationales
from rationales.data import Example, read_data
from rationales.errors import DataError, OptionError
from rationales.evaluation import collecting
from rationales.evaluation.protocols import PRESETS
from rationales.evaluation.scores.attribution import score_rows
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.experiments import EXPERIMENTS, Request
from rationales.experiments.marc_table1 import run, widths
from rationales.experiments.marc_table1.claims import claims
from rationales.experiments.marc_table1.report import sections
from rationales.experiments.marc_table1.row_specs import (
    ABLATIONS,
    GROUPS,
    MAIN,
    MARC,
    METRICS,
    PUBLISHED_COLUMNS,
    RIVALS,
    ROWS,
    SHAPED,
    SMOOTHED,
    WIDTHS,
    key_of,
    names,
    row_title,
    select_rows,
)
from rationales.methods import METHODS, build
from rationales.methods.gradient.gradient_method import GradientMethod

QUICK = ("random", "saliency-norm", "saliency-norm-smoothed", "shapley", "marc-default")


def as_table(figures, inputs=20, noise=0.0):
    """A table with these means: row key -> metric -> mean; every input has the mean, or scatters around it."""
    noise_values = np.random.default_rng(0).normal(size=inputs) * noise
    rows = [
        TableRow(
            ROWS[key].title,
            {name: Cell(tuple((mean + noise_values - noise_values.mean()).tolist())) for name, mean in means.items()},
        )
        for key, means in figures.items()
    ]
    return Table(
        tuple(rows), PUBLISHED_COLUMNS, tuple(map(str, range(inputs))), PRESETS["marc"], "fitted", "m", "pad", 0, {}
    )


def published():
    return {key: spec.figures() for key, spec in ROWS.items() if spec.published}


def verdicts(table):
    """(claim, comparison) -> holds."""
    return {(claim.text, verdict.reading): verdict.holds for claim in claims(table) for verdict in claim.verdicts}


class TestRows:
    def test_are_those_of_the_paper(self):
        """Ten methods and four ablations, the figures of three of them as printed."""
        printed = published()
        assert len(printed) == 14
        assert set(printed) == {MARC, *RIVALS, *ABLATIONS}
        assert printed[MARC] == {
            "token-f1": 0.473,
            "average-precision": 0.469,
            "iou-f1": 0.163,
            "sufficiency": 0.028,
            "comprehensiveness": 0.518,
        }
        assert printed["shapley"]["sufficiency"] == -0.015
        assert printed["without-width"]["comprehensiveness"] == 0.535

    @pytest.mark.parametrize("ending", [SMOOTHED, SHAPED])
    def test_every_rival_is_there_once_more_smoothed_and_shaped(self, ending):
        further = "integrated-gradients-log-odds"
        assert all(key + ending in ROWS for key in (*RIVALS, further, "random"))
        control_rows = {spec.key for spec in select_rows([ending.removeprefix("-")])}
        assert control_rows == {"random", *(key + ending for key in (*RIVALS, further))}

    def test_a_control_row_differs_from_its_rival_in_smoothing_and_shape_alone(self):
        for key in (*RIVALS, "random"):
            plain, smoothed, shaped = (ROWS[key + ending] for ending in ("", SMOOTHED, SHAPED))
            assert plain.options == smoothed.options == shaped.options
            assert [spec.plain_key for spec in (plain, smoothed, shaped)] == [key] * 3
            assert [spec.shape for spec in (plain, smoothed, shaped)] == [None, None, "clauses"]
            assert [spec.widths for spec in (plain, smoothed, shaped)] == [(None,), WIDTHS, (None, *WIDTHS)]
            assert shaped.title == f"{plain.title}, shaped by clauses"

    def test_marc_has_a_row_for_each_of_its_presets_for_texts(self):
        presets = [spec.options.get("preset", "default") for spec in ROWS.values() if spec.group == "presets"]
        assert sorted(presets) == sorted(METHODS["marc"].presets["text"])

    @pytest.mark.parametrize("key", ROWS)
    def test_every_row_can_be_built(self, key):
        assert build(ROWS[key].method, dict(ROWS[key].options)).name == ROWS[key].method

    def test_settings_are_the_papers(self):
        occlusion, gradients, lime, shapley = (
            build(ROWS[key].method, dict(ROWS[key].options))
            for key in ("occlusion", "integrated-gradients-sum", "lime", "shapley")
        )
        assert (occlusion.window, occlusion.stride) == (5, 1)
        assert (gradients.steps, gradients.reduce) == (50, "sum")
        assert (lime.samples, lime.min_share, lime.max_share, lime.following, lime.kernel) == (50, 0.05, 0.13, 3, 0.0)
        assert shapley.orders == 25
        marc = build("marc", {"preset": "paper"})
        changed = {"noise": ("noise", "flip_share"), "sparsity": ("sparsity",), "width": ("sigma_weight",)}
        changed |= {"complement": ("complement",)}
        for row, options in changed.items():
            assert build("marc", dict(ROWS[f"without-{row}"].options)) == replace(marc, **dict.fromkeys(options, 0.0))

    def test_gradient_methods_explain_the_logit_as_in_the_published_rows(self):
        methods = {key: build(spec.method, dict(spec.options)) for key, spec in ROWS.items()}
        outputs = {key: method.output for key, method in methods.items() if isinstance(method, GradientMethod)}
        log_odds = {f"integrated-gradients-log-odds{ending}" for ending in ("", SMOOTHED, SHAPED)}
        assert {key for key, output in outputs.items() if output == "log-odds"} == log_odds
        assert len(outputs) == 18 + 3  # three methods, two reductions; plain, smoothed, shaped
        assert set(outputs.values()) == {"logit", "log-odds"}

    def test_a_remark_says_which_output_is_explained(self):
        keys = ["marc", "occlusion", "saliency-norm", "saliency-norm-smoothed", "random"]
        assert "Explained output: probability (Occlusion), logit (Saliency, norm)." in run._remarks(0.97, keys)
        assert not any("Explained output" in remark for remark in run._remarks(0.97, ["marc", "random"]))

    def test_cheap_ones_come_first_and_chance_always(self):
        order = [spec.key for spec in select_rows(None)]
        assert set(order) == set(ROWS)
        assert order[0] == "random"
        assert order.index("saliency-norm") < order.index("lime") < order.index("marc") < order.index("shapley")
        assert all(order.index(key) < order.index(key + SMOOTHED) for key in RIVALS)
        assert [spec.key for spec in select_rows(["lime"])] == ["random", "lime"]
        assert {spec.key for spec in select_rows(["ablations"])} == {"random", *ABLATIONS}
        assert {key for group in GROUPS for key in (spec.key for spec in select_rows([group]))} == set(ROWS)

    def test_an_unknown_row_is_answered_with_the_known_ones(self):
        with pytest.raises(OptionError, match="no row 'limes'; there are: presets, rivals"):
            select_rows(["lime", "limes"])
        assert len(names()) == len(set(names()))

    def test_titles_lead_back_to_rows(self):
        for key, spec in ROWS.items():
            assert all(key_of(row_title(spec, width)) == key for width in spec.widths)
        assert key_of("People (union of further annotators)") is None


class TestClaims:
    def test_all_hold_in_the_papers_own_figures(self):
        holds_by_claim = verdicts(as_table(published()))
        assert len(holds_by_claim) > 10
        assert all(holds for (_, reading), holds in holds_by_claim.items() if reading == "the paper's own figures")
        assert all(holds for (_, reading), holds in holds_by_claim.items() if reading == "here")

    def test_each_falls_with_the_figure_it_stands_on(self):
        """One figure changed, and the claims that it decides change with it, and no others."""

        def fallen(key, metric, value):
            figures = published()
            figures[key][metric] = value
            return {text for (text, reading), holds in verdicts(as_table(figures)).items()
                    if reading == "here" and not holds}  # fmt: skip

        assert fallen("lime", "token-f1", 0.48) == {"MaRC has the best token F1 of all methods"}
        assert fallen("occlusion", "average-precision", 0.47) == {"MaRC has the best mAP of all methods"}
        assert {text.split(" (")[0] for text in fallen("occlusion", "iou-f1", 0.15)} == {
            "MaRC leads in IoU F1 by a large margin"
        }
        only = "Only Shapley sampling is better in both sufficiency and comprehensiveness"
        assert fallen("occlusion", "comprehensiveness", 0.6) == {only}
        assert fallen("shapley", "sufficiency", 0.1) == {only}
        assert {text.split(" (")[0] for text in fallen(MARC, "sufficiency", 0.051)} >= {
            "Several methods, MaRC among them, reach a sufficiency close to 0"
        }
        assert fallen("without-noise", "iou-f1", 0.2) == set()  # 18 of 20 is still almost all

    def test_an_ablation_that_wins_takes_its_part_with_it(self):
        figures = published()
        figures["without-noise"] = {name: figures[MARC][name] for name in PUBLISHED_COLUMNS}
        holds_by_claim = {text: holds for (text, name), holds in verdicts(as_table(figures)).items() if name == "here"}
        lost = [text.split(" (")[0] for text, holds in holds_by_claim.items() if not holds]
        assert lost == ["The full objective is almost uniformly the best variant", "Essential: the noise"]

    @pytest.mark.parametrize("ending", [SMOOTHED, SHAPED])
    def test_smoothed_and_shaped_rivals_are_judged_apart(self, ending):
        figures = published()
        for key in RIVALS:
            figures[key + ending] = dict(figures[key])
        figures[f"integrated-gradients-sum{ending}"] |= {"average-precision": 0.5}
        figures["marc-default"] = dict(figures[MARC]) | {"average-precision": 0.6}
        holds_by_claim = verdicts(as_table(figures))
        best = "MaRC has the best mAP of all methods"
        assert holds_by_claim[best, "here"]
        control = ending.removeprefix("-")
        assert not holds_by_claim[best, f"here, rivals {control}"]
        assert holds_by_claim[best, f"here, default settings, rivals {control}"]

    def test_figures_and_significance_are_told(self):
        figures = published() | {"random": {"token-f1": 0.44, "average-precision": 0.32, "iou-f1": 0.117}}
        verdict_by_claim = {
            (claim.text, verdict.reading): verdict for claim in claims(as_table(figures)) for verdict in claim.verdicts
        }
        best = verdict_by_claim["MaRC has the best IoU F1 of all methods", "here"]
        assert best.figures == "MaRC .163, best rival Occlusion .125"
        # 20 equal differences: (1 + 0) / 10,001 for each of 14 rows, random among them in three columns, after Holm
        assert best.p == pytest.approx(14 / 10_001)
        assert best.word_with_p == "holds, p = .001"
        control = verdict_by_claim["Not in the paper: MaRC agrees better with people than random scores do", "here"]
        assert "token F1 .473, random .440" in control.figures
        assert control.word == "holds"

    def test_published_figures_are_never_called_significant(self):
        """They come without values of single reviews, so that nothing can be tested."""
        of_paper = [verdict for claim in claims(as_table(published())) for verdict in claim.verdicts
                    if verdict.reading == "the paper's own figures"]  # fmt: skip
        assert {verdict.word_with_p for verdict in of_paper} == {"true of the figures, not tested"}

    def test_what_two_reviews_show_is_not_significant(self):
        """Two reviews have four sign flips, so that no p value is below 1/2."""
        here = [verdict for claim in claims(as_table(published(), inputs=2)) for verdict in claim.verdicts
                if verdict.reading == "here"]  # fmt: skip
        assert all(verdict.holds for verdict in here)
        assert {verdict.word for verdict in here} == {"not significant"}
        assert all(verdict.p >= 0.5 for verdict in here)

    def test_a_large_margin_is_tested_as_such(self):
        """A difference that is significant but no larger than the margin does not make the margin significant."""
        figures = published()
        figures[MARC]["iou-f1"] = 1.2 * figures["occlusion"]["iou-f1"] + 0.001
        margin = next(claim for claim in claims(as_table(figures, noise=0.05)) if "large margin" in claim.text)
        verdict = next(verdict for verdict in margin.verdicts if verdict.reading == "here")
        assert verdict.holds
        assert verdict.word == "not significant"

    def test_missing_rows_are_named_not_guessed(self):
        figures = {key: means for key, means in published().items() if key not in ("lime", "without-noise")}
        table = as_table(figures)
        of_rivals = claims(table)[0].verdicts[1]
        assert (of_rivals.holds, of_rivals.word, of_rivals.figures) == (None, "not judged", "no row lime")
        assert verdicts(as_table({}))["MaRC has the best mAP of all methods", "here"] is None


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr(run, "load", lambda *_, **__: rationales.load(*known_model()))


@pytest.fixture
def score_calls(monkeypatch):
    """(method, inputs) of every time that a method was asked."""
    score_calls = []

    def spy(model, encoded, method, *arguments, **keywords):
        score_calls.append((method.name, len(encoded)))
        return score_rows(model, encoded, method, *arguments, **keywords)

    monkeypatch.setattr(collecting, "score_rows", spy)
    return score_calls


def reporting(scores):
    """The same scores, with a report in the middle of the work."""

    def wrapped(self, batch, target, progress=None):
        if progress is not None:
            progress(0.5)
        return scores(self, batch, target, progress)

    return wrapped


class TestRun:
    def test_the_whole_way(self, tmp_path, known, score_calls):
        lines, shares = [], []
        (tmp_path / "out").mkdir()
        request = Request(
            data=movies(tmp_path), rows=QUICK, out=tmp_path / "out", log=lines.append, progress=shares.append
        )
        outcome = EXPERIMENTS["marc-table1"].run(request)
        table = outcome.table
        titles = [row.title for row in table.rows]
        assert titles[:3] == ["MaRC, default settings", "Saliency, norm", "Shapley sampling"]
        assert titles[3].startswith("Saliency, norm, smoothed (s = ")
        assert titles[4:] == [
            "Random",
            "People (majority of further annotators)",
            "People (union of further annotators)",
        ]
        assert table.metrics == METRICS
        assert outcome.printed_metrics == MAIN
        assert table.protocol is PRESETS["marc"]
        assert len(table.inputs) == 8
        assert {name: cell.estimate.n for name, cell in table[titles[-1]].cells.items()} == {"token-f1": 4, "iou-f1": 4}
        assert lines[0].startswith(
            "5 rows on 8 test reviews, widths of smoothing on 8 validation reviews; shapley takes"
        )
        assert [line.partition("]")[0] for line in lines[1:]] == [f"[{number}/5" for number in range(1, 6)]
        assert all(re.search(r"\(\d.* s\); about \d.* left$", line) for line in lines[1:5])
        assert "left" not in lines[5]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
        # the method of the smoothed row was asked once for the test and once for the validation reviews
        assert score_calls.count(("saliency", 8)) == 2
        markdown = outcome.to_markdown()
        for fragment in (
            "Protocol marc",
            "100.0 % of these reviews correctly; methods explain the gold label",
            "## The paper's claims",
            "## Calibrated rationales",
            "keep-sum",
            "| Shapley sampling | .428 | .439 | .079 | −.015 | .728 |",
            "## Widths, by mAP on 8 validation reviews",
            "This run took",
        ):
            assert fragment in markdown

    def test_a_shaped_row_differs_from_the_plain_one_in_agreement_alone_and_says_so(self, tmp_path, known, monkeypatch):
        """Its width smooths spans, not the scores of words that faithfulness is measured on."""
        monkeypatch.setattr(widths, "best", lambda *_: 2.0)
        rows = ["random", "random-smoothed", "random-shaped", "saliency-norm-shaped"]
        data = movies(tmp_path, 2, ending=" and then the long quiet river went on past the field" * 12)
        outcome = run.reproduce(Request(data=data, rows=rows, out=tmp_path))
        row_by_key = {key_of(row.title): row for row in outcome.table.rows}
        plain, smoothed, shaped = (row_by_key[f"random{ending}"] for ending in ("", "-smoothed", "-shaped"))
        assert shaped.title == "Random, shaped by clauses (s = 2)"
        assert row_by_key["saliency-norm-shaped"].title == "Saliency, norm, shaped by clauses (s = 2)"
        assert (smoothed.shape, shaped.shape) == (None, "clauses")
        for row in (plain, smoothed):
            assert row.cells["average-precision"].values != shaped.cells["average-precision"].values
        for name in ("sufficiency", "comprehensiveness"):
            assert plain.cells[name].values == shaped.cells[name].values
            assert smoothed.cells[name].values != shaped.cells[name].values
        markdown = outcome.to_markdown()
        assert "these are scores of spans. Faithfulness is measured on the scores of words" in markdown
        assert "| Saliency, norm, shaped by clauses |" in markdown  # its widths
        assert Table.from_json(tmp_path / "table.json")[shaped.title].shape == "clauses"

    def test_the_limit_holds_for_the_reviews_that_widths_are_chosen_on(self, tmp_path, known, score_calls):
        lines = []
        rows = ["saliency-norm", "saliency-norm-smoothed"]
        request = Request(data=movies(tmp_path), rows=rows, limit=2, log=lines.append)
        run.reproduce(request)
        assert max(count for _, count in score_calls) == 2
        assert lines[0].startswith("3 rows on 2 test reviews, widths of smoothing on 2 validation reviews")
        run.reproduce(replace(request, validation=3))
        assert max(count for _, count in score_calls) == 3  # unless it is said

    def test_a_smoothed_row_reports_its_progress_on_validation_reviews_too(self, tmp_path, known, monkeypatch):
        shares = []
        monkeypatch.setattr(METHODS["occlusion"], "scores", reporting(METHODS["occlusion"].scores))
        rows = ["occlusion", "occlusion-smoothed"]
        run.reproduce(Request(data=movies(tmp_path), rows=rows, limit=4, progress=shares.append))
        assert shares == sorted(shares)
        # random 40, occlusion 440, smoothed 440 of which 400 are scores of validation reviews: there it passes through
        begin, end = (40 + 440) / 920, (40 + 440 + 400) / 920
        assert [share for share in shares if begin < share < end] != []

    def test_the_time_left_is_what_it_took_per_share(self):
        assert run.time_left(30.0, 0.25) == "about 90.0 s left"
        assert run.time_left(600.0, 0.5) == "about 10.0 min left"
        assert run.time_left(3600.0, 0.1) == "about 9.0 h left"

    def test_the_width_is_the_best_of_the_grid(self):
        means = {"none": 0.9, "2": 0.1, "4": 0.3, "6": 0.3, "8": 0.3, "10": 0.2, "15": 0.0}
        assert widths.best(means, ROWS["lime-smoothed"]) == 4.0
        assert widths.best(means, ROWS["lime-shaped"]) is None  # a shaped row need not be smoothed
        assert widths.best(means | {"none": 0.3}, ROWS["lime-shaped"]) is None
        assert widths.best(means | {"none": 0.2}, ROWS["lime-shaped"]) == 4.0
        assert set(means) == {"none", *(f"{width:g}" for width in WIDTHS)}

    def test_marks_are_widened_to_the_sentences_they_touch(self):
        text = "A dull film . I left early ! The arguments was fine . Go home ."
        spans = [(text.index("dull"), text.index("dull") + 4), (text.index("fine"), text.index("home"))]
        example = Example("one", text, "NEG", spans=tuple(spans))
        means = [text[start:end] for start, end in widths.in_sentences(example).spans]
        assert means == ["A dull film .", "The arguments was fine .", "Go home ."]
        assert widths.in_sentences(replace(example, spans=None)).spans is None

    def test_an_interrupted_run_goes_on(self, tmp_path, known, score_calls, monkeypatch):
        request = Request(data=movies(tmp_path), rows=QUICK, out=tmp_path / "out", cache=tmp_path / "kept")
        (tmp_path / "out").mkdir()
        plain = METHODS["shapley-sampling"].scores

        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(METHODS["shapley-sampling"], "scores", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.reproduce(request)
        half = Table.from_json(tmp_path / "out" / "table.json")
        assert [key_of(row.title) for row in half.rows] == [
            "marc-default", "saliency-norm", "saliency-norm-smoothed", "random",
        ]  # fmt: skip
        assert (tmp_path / "out" / "table.md").is_file()
        monkeypatch.setattr(METHODS["shapley-sampling"], "scores", plain)
        score_calls.clear()
        complete = run.reproduce(request).table
        assert score_calls == [("shapley-sampling", 8)]
        assert complete["Random"] == half["Random"]
        # without the folder everything is measured anew, but no method is asked again
        score_calls.clear()
        again = run.reproduce(replace(request, out=None)).table
        assert score_calls == []
        assert again["Shapley sampling"].cells == complete["Shapley sampling"].cells

    def test_rows_of_another_model_or_other_reviews_are_not_taken_over(self, tmp_path, known, score_calls, monkeypatch):
        (tmp_path / "out").mkdir()
        request = Request(data=movies(tmp_path), rows=["random"], out=tmp_path / "out")
        run.reproduce(request)
        assert score_calls == [("random", 8)]
        run.reproduce(request)
        assert score_calls == [("random", 8)]
        for changed in (replace(request, limit=4), replace(request, seed=1), replace(request, validation=3)):
            run.reproduce(changed)
        assert score_calls == [("random", 8), ("random", 4), ("random", 8), ("random", 8)]
        module, tokenizer = known_model()
        module.strength = 3.0
        module.embeddings.weight.data *= 2
        monkeypatch.setattr(run, "load", lambda *_, **__: rationales.load(module, tokenizer))
        run.reproduce(replace(request, validation=3))
        assert len(score_calls) == 5
        assert Table.from_json(tmp_path / "out" / "table-before.json").seed == 0  # nothing is thrown away
        (tmp_path / "out" / "table.json").write_text("{", encoding="utf-8")
        run.reproduce(replace(request, validation=3))
        assert len(score_calls) == 6

    def test_few_reviews_are_spread_over_both_classes(self, tmp_path, known):
        table = run.reproduce(Request(data=movies(tmp_path), rows=["random"], limit=2)).table
        assert sorted(name[:3] for name in table.inputs) == ["neg", "pos"]

    def test_people_are_left_out_where_nobody_else_was_asked(self, tmp_path):
        folder = movies(tmp_path)
        for path in folder.glob("*human_perf.jsonl"):
            path.unlink()
        assert run.people(read_data("eraser-movies", "test", folder)) == []

    def test_a_missing_folder_is_told(self, tmp_path):
        with pytest.raises(DataError, match="no folder or archive"):
            run.reproduce(Request(data=tmp_path / "nowhere"))

    def test_products_are_as_they_were_afterwards(self, tmp_path, known):
        import torch

        before = torch.get_float32_matmul_precision()
        table = run.reproduce(Request(data=movies(tmp_path), rows=["random"], tf32=True)).table
        assert table.versions["products"] == "tf32"
        assert torch.get_float32_matmul_precision() == before
        assert any("TF32" in remark for remark in table.remarks)

    def test_coarse_products_are_those_of_the_steps_too(self):
        for key, row in ROWS.items():
            fast = run._fast(row)
            fast_method, usual = (build(spec.method, dict(spec.options), "text") for spec in (fast, row))
            if row.method == "marc":
                assert fast_method == replace(usual, precision="auto"), key
            else:
                assert fast_method == usual, key
        assert build("marc", dict(ROWS[MARC].options), "text").precision == "full"

    @pytest.mark.slow
    def test_every_row_and_every_claim(self, tmp_path, known):
        outcome = run.reproduce(Request(data=movies(tmp_path)))
        assert {key_of(row.title) for row in outcome.table.rows} - {None} == set(ROWS)
        assert all(verdict.holds is not None for claim in claims(outcome.table) for verdict in claim.verdicts)
        assert outcome.reference == "MaRC"


def test_sections_without_marc_are_left_out():
    random = {"random": dict.fromkeys(PUBLISHED_COLUMNS, 0.5)}
    titles = [title for title, _ in sections(as_table(random), {}, 0, 1.0)]
    assert titles == ["The paper's claims", "The paper's own figures (BERT-base)", "Time"]


class TestCommand:
    def test_lists_tables_and_rows(self):
        output = command("reproduce", "--list").stdout
        assert "marc-table1: Rationales of movie reviews" in output
        assert "Brinner and Zarriess" in output
        assert all(name in output for name in names())

    def test_writes_and_prints_the_report(self, tmp_path, known, monkeypatch):
        monkeypatch.setattr("rationales.data.archives.cache_folder", lambda: tmp_path / "cache" / "data")
        arguments = ("--data", movies(tmp_path), "--rows", "random,saliency-norm", "--out", tmp_path / "out")
        done = command("reproduce", "marc-table1", *arguments)
        assert done.exit_code == 0, done.output
        assert done.stdout == (tmp_path / "out" / "table.md").read_text(encoding="utf-8")
        assert done.stdout.startswith("# MaRC, Table 1")
        assert {path.name for path in (tmp_path / "out").iterdir()} == {
            "table.md", "table.csv", "table.json", "widths.json", "plot.png",
        }  # fmt: skip
        assert "Saliency, norm: average-precision" in done.stderr
        assert (tmp_path / "cache" / "scores").is_dir()
        data = json.loads(command("reproduce", "marc-table1", *arguments, "--json", "--limit", "4").stdout)
        assert len(data["inputs"]) == 4

    def test_a_terminal_gets_a_drawn_table(self, tmp_path, known, monkeypatch):
        monkeypatch.setattr("rich.console.Console.is_terminal", True)
        monkeypatch.setenv("COLUMNS", "140")
        output = command(
            "reproduce", "marc-table1", "--data", movies(tmp_path), "--rows", "random", "--no-cache"
        ).stdout
        assert "The paper's claims" in output
        assert "| --- |" not in output

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "name a table: marc-table1"),
            (["table-9"], "there is no table 'table-9'"),
            (["marc-table1", "--rows", "limes"], "there is no row 'limes'"),
            (["marc-table1", "--limit", "0"], "--limit must be at least 1"),
            (["marc-table1", "--validation", "0"], "--validation must be at least 1"),
            (["marc-table1", "--data", "nowhere"], "there is no folder or archive nowhere"),
            (["marc-table1", "--cache", "a", "--no-cache"], "not both"),
        ],
    )
    def test_mistakes_are_told_in_one_line(self, tmp_path, monkeypatch, arguments, message):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        assert message in error(command("reproduce", *arguments))
