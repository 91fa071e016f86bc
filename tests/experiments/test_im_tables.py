"""The tables of Pham et al. 2022: all of them on small data, known answers, and verdicts worked out by hand."""

from __future__ import annotations

import re
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
from commands import error
from commands import run as command
from experiments.im_data import workspace, write_data
from scipy.stats import t as student

from rationales.errors import OptionError
from rationales.evaluation.counterfactuals.filler_predictions import FillerPredictions
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.experiments import EXPERIMENTS, Request
from rationales.experiments.input_marginalization import (
    appendix,
    figure4,
    rows,
    sanity,
    table1,
    table2,
    table3,
    table4,
)
from rationales.experiments.input_marginalization.reporting import higher_than_all, lower_than_all, standing
from rationales.experiments.input_marginalization.rows import IM, LOO, RANDOM, ROWS, select_rows
from rationales.experiments.input_marginalization.tables import TABLES, row_names
from rationales.experiments.input_marginalization.workspace import SST2, Workspace
from rationales.experiments.registry import COMMON_OPTIONS
from rationales.models.text.filling.loading import filler_names


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return workspace(write_data(tmp_path_factory.mktemp("im")))


@pytest.fixture(scope="module")
def reports(shared):
    computed = {}

    def get(name):
        if name not in computed:
            computed[name] = TABLES[name](shared)
        return computed[name]

    return get


def means(table, metric):
    return {row.title: row.cells[metric].estimate.mean for row in table.rows if metric in row.cells}


class TestEveryTable:
    @pytest.mark.parametrize("name", TABLES)
    def test_has_marc_gradients_and_chance_as_rows_and_says_how_it_was_made(self, name, reports):
        report = reports(name)
        text = report.to_markdown()
        for table in (report.table, *(table for _, table, _ in report.further_tables)):
            titles = " ".join(row.title for row in table.rows)
            assert all(title in titles for title in ("MaRC", "Integrated gradients", "Random"))
            assert Table.from_json(table.to_json()).rows[0].title == table.rows[0].title
        assert f"Command: `rationales reproduce {name} --data DIR --seed 0" in text
        assert "## The paper's claims" in text
        for verdict in re.findall(r"\*\*holds(.*?)\*\*", text):
            assert re.match(r", p [=<] \.\d+", verdict)

    @pytest.mark.parametrize(
        ("name", "figures"),
        [
            ("im-table1a", ["| SST-2, Deletion | 0.4732 |"]),
            ("im-table2", ["| LOO-empty | 92.62 | 74.59 |"]),
            ("im-table3", ["| SST, IoU | 0.2377 |"]),
            ("im-table4", ["| LOO (one word deleted) | 3.52 |"]),
            ("im-sanity", ["| tokens that change sign | LOO-empty | 71.41 ± 17.12 % |"]),
            (
                "im-appendix",
                [
                    "| A1, magnitude: IM | 0.17 ± 0.27 |",
                    "| A3, likelihood of an exact match | 0.8229 |",
                    "| Deletion-BERT | 0.4922 | 0.4824 | 0.4972 |",
                    "Pearson's r of the scores of both rules",
                    "(paper: 0.7224)",
                    "| LIME-BERT-SST2 | 74.15 | 70.85 | 70.48 | 76.19 | 69.77 | 67.61 | 76.08 | 70.92 | 71.08 |",
                ],
            ),
        ],
    )
    def test_prints_the_papers_own_figures(self, name, figures, reports):
        text = reports(name).to_markdown()
        assert all(line in text for line in figures)

    def test_has_a_verdict_on_every_row_of_lime_bert_and_on_both_rules_for_candidates(self, reports):
        for name, claims in {
            "im-table3": [f"LIME agrees better with people than {row}," for row in ("LIME-BERT", "LIME-BERT-SST2")],
            "im-appendix": [
                *("LIME-BERT beats LIME", "LIME-BERT-SST2 beats LIME", "Scores by both rules for candidates are"),
                *(f"IM's order among the LOO methods under {column}**" for column in table1.COLUMNS),
            ],
        }.items():
            text = reports(name).to_markdown()
            assert all(claim in text for claim in claims)

    def test_is_on_the_list_of_experiments(self):
        assert set(TABLES) <= set(EXPERIMENTS)
        for name in TABLES:
            assert EXPERIMENTS[name].rows() == row_names(name)

    def test_scores_are_computed_once_for_all_tables(self, shared, reports, monkeypatch):
        reports("im-table1a")
        module = "rationales.experiments.input_marginalization.workspace.cached_row_scores"
        monkeypatch.setattr(module, lambda *_: pytest.fail("scored again"))
        assert shared.unit_scores(SST2, LOO) is not None


class TestKnownAnswer:
    """The sentiment model reads nothing but "good" and "bad"."""

    def test_leave_one_out_deletes_the_word_that_decides(self, reports):
        deletion = means(reports("im-table1a").table, "deletion")
        assert deletion["LOO-empty"] < deletion["Random"] - 0.1
        assert deletion["MaRC"] == pytest.approx(deletion["LOO-empty"], abs=0.1)

    def test_accuracy_falls_to_chance_without_it(self, reports):
        report = reports("im-table4")
        drop = means(report.table, table4.DROP)
        assert drop[table4.best_word(LOO)] > drop[table4.best_word(RANDOM)] + 0.2
        assert drop[table4.OPERATIONS["delete-one"]] < drop[table4.OPERATIONS["lime"]]

    def test_people_marked_what_the_model_reads(self, reports):
        iou = means(reports("im-table3").table, "best-threshold-iou")
        assert iou["LOO-empty"] == 1.0
        assert iou["Random"] < 0.5

    def test_retraining_is_shared_by_table_2_and_table_a6(self, shared, reports, monkeypatch):
        rows_of_both = tuple(dict.fromkeys((*rows.PAIR_ROWS, *rows.LIME_ROWS)))
        names = rows.REMOVALS
        titled = table2.retrained_tables(shared, rows_of_both, names)
        assert [title for title, _, _ in titled] == list(table2.TITLES.values())
        monkeypatch.setattr(table2, "roar_tables", lambda *_, **__: pytest.fail("trained again"))
        pair = table2.retrained_tables(shared, rows.PAIR_ROWS, names[:2])
        assert [row.title for row in pair[0][1].rows] == [ROWS[row].title for row in rows.PAIR_ROWS]
        assert "5 training" not in pair[0][1].recipe
        assert "40 training and 12 test texts" in pair[0][1].recipe

    def test_parts_of_the_appendix(self, shared):
        request = Request(data=shared.request.data, rows=["a3"], samples=30)
        workspace = Workspace(request, shared.models, shared.fillers)
        text = appendix.appendix(workspace).to_markdown()
        assert "A3: what" in text
        assert "A6" not in text
        with pytest.raises(OptionError, match="no part 'a9' of the appendix"):
            appendix.appendix(Workspace(Request(rows=["a9"])))


def seeds_table(figures):
    """A table over five seeds: row key -> metric -> values."""
    table_rows = tuple(
        TableRow(ROWS[key].title, {name: Cell(tuple(values)) for name, values in cells.items()})
        for key, cells in figures.items()
    )
    metrics = tuple(dict.fromkeys(name for cells in figures.values() for name in cells))
    names = tuple(f"seed {number}" for number in range(5))
    return Table(table_rows, metrics, names, None, "", "m", "pad", 0, {}, unit="seeds")


class TestVerdicts:
    spread = np.array([-0.01, -0.005, 0.0, 0.005, 0.01])

    def around(self, *centres):
        names = ("roar@0%", "roar@10%", "roar@20%")
        return dict(zip(names, [centre + self.spread for centre in centres], strict=True))

    def test_im_that_is_worse_is_not_better(self):
        table = seeds_table({LOO: self.around(0.9, 0.7, 0.6), IM: self.around(0.9, 0.8, 0.7)})
        verdict = table2._not_better(table, "here")
        assert verdict.word == "holds"
        assert "IM − LOO-empty .100, .100" in verdict.figures

    def test_im_that_is_far_better_is(self):
        table = seeds_table({LOO: self.around(0.9, 0.8, 0.7), IM: self.around(0.9, 0.7, 0.7)})
        assert table2._not_better(table, "here").word == "does not hold"

    def test_equal_accuracies_are_not_enough_evidence_with_so_few_seeds(self):
        wide = {name: values + 3 * self.spread for name, values in self.around(0.9, 0.7, 0.6).items()}
        assert table2._not_better(seeds_table({LOO: wide, IM: wide}), "here").word == "not significant"

    def test_random_words_must_be_beaten_at_every_level(self):
        table = seeds_table({LOO: self.around(0.9, 0.7, 0.6), RANDOM: self.around(0.9, 0.85, 0.8)})
        assert table2._beats_random(table, LOO, "here").word == "holds"
        table = seeds_table({LOO: self.around(0.9, 0.7, 0.8), RANDOM: self.around(0.9, 0.85, 0.8)})
        assert table2._beats_random(table, LOO, "here").word != "holds"
        assert table2._beats_random(table, IM, "here").word == "not judged"

    def test_the_largest_p_value_counts_where_all_must_hold(self):
        table = seeds_table({
            IM: {"roar@10%": 0.5 + self.spread}, LOO: {"roar@10%": 0.7 + self.spread},
            RANDOM: {"roar@10%": 0.505 + self.spread},
        })  # fmt: skip
        clear = lower_than_all(table, IM, [LOO], "roar@10%", "here")
        both = lower_than_all(table, IM, [LOO, RANDOM], "roar@10%", "here")
        assert clear.word == "holds"
        assert both.word == "not significant"
        assert both.p > clear.p
        assert higher_than_all(table, IM, [LOO], "roar@10%", "here").word == "does not hold"

    def test_no_claim_is_judged_where_no_prediction_was_correct(self):
        undefined = {"roar@10%": np.full(5, np.nan)}
        table = seeds_table({IM: undefined, LOO: undefined, "marc": undefined})
        assert lower_than_all(table, IM, [LOO], "roar@10%", "here").word == "not judged"
        assert standing([("ROAR", table, None)]) == ""

    def test_where_marc_stands(self):
        table = seeds_table({IM: self.around(0.9, 0.7, 0.6), "marc": self.around(0.9, 0.6, 0.65)})
        text = standing([("ROAR", table, None)])
        assert "| ROAR | roar@10% ↓ | 1 of 2 (.600; best MaRC .600), MaRC − IM −.100, p < .001 |" in text
        assert "| ROAR | roar@20% ↓ | 2 of 2 (.650; best IM .600)" in text
        assert "roar@0%" not in text

    def test_lime_is_compared_by_the_mean_over_levels(self):
        table = seeds_table({"lime": self.around(0.9, 0.8, 0.7), "lime-bert": self.around(0.9, 0.7, 0.65)})
        verdict = appendix._lower_on_average(table, "lime-bert", "lime", "here")
        assert verdict.word == "holds"
        assert verdict.figures == "LIME-BERT .675, LIME .750"


def texts_table(metric, figures):
    """A table over texts: row key or title -> values."""
    table_rows = tuple(
        TableRow(ROWS[key].title if key in ROWS else key, {metric: Cell(tuple(values))})
        for key, values in figures.items()
    )
    names = tuple(f"text {number}" for number in range(len(table_rows[0].cells[metric].values)))
    return Table(table_rows, (metric,), names, None, "", "m", "pad", 0, {})


def falling(*centres):
    """Accuracies of five seeds around these centres, at 0, 10 and 30 %."""
    levels = ("roar@0%", "roar@10%", "roar@30%")
    return {name: centre + TestVerdicts.spread for name, centre in zip(levels, centres, strict=True)}


class TestVerdictsByHand:
    def test_accuracy_falls_where_every_level_is_below_the_one_before(self):
        """Variance 6.25e-5 of five seeds: a step of .1 has t = .1 / sqrt(2 * 6.25e-5 / 5) = 20 with 8 degrees."""

        def verdict(**centres):
            figures = {key.replace("_", "-"): falling(*values) for key, values in centres.items()}
            return table2._falls(seeds_table(figures), "here")

        falls = verdict(loo_empty=(0.9, 0.7, 0.6), im=(0.9, 0.8, 0.7))
        assert falls.word == "holds"
        assert falls.p == pytest.approx(2 * student.sf(20, 8))
        assert falls.figures == "LOO-empty .900, .700, .600; IM .900, .800, .700"
        assert verdict(loo_empty=(0.9, 0.7, 0.6), im=(0.9, 0.7, 0.71)).word == "does not hold"
        hardly = verdict(loo_empty=(0.9, 0.7, 0.6), im=(0.9, 0.7, 0.699))
        assert hardly.word == "not significant"
        assert hardly.p == pytest.approx(2 * student.sf(0.2, 8))
        assert verdict(im=(0.9, 0.7, 0.6)).word == "not judged"

    @pytest.mark.parametrize(
        ("values", "word", "p"),
        [
            ([0.0] * 8, "holds", 2 / 2**8),  # each is .05 below: no flips but none and all are as far from 0
            ([0.1] * 8, "does not hold", 2 / 2**8),
            ([0.0] * 4, "not significant", 2 / 2**4),
            # -.05 nine times and .2: as far from 0 are .2 with a sum of the others of .05 and more, or of -.45
            ([0.0] * 9 + [0.25], "not significant", 2 * (2**8 + 1) / 2**10),
        ],
    )
    def test_a_loss_is_marginal_below_five_points(self, values, word, p):
        verdict = table4._marginal(texts_table(table4.DROP, {"LOO samples": values}), "LOO samples", "here")
        assert verdict.word == word
        assert verdict.p == pytest.approx(p)
        assert verdict.figures == f"loss {np.mean(values):.3f}".replace("0.", ".")

    def test_no_loss_is_judged_without_its_row(self):
        assert table4._marginal(texts_table(table4.DROP, {"a": [0.0]}), "b", "here").word == "not judged"

    def predictable(self, scores, matches):
        """The verdict on texts with these scores and words that the filler predicts."""
        numbers = np.concatenate([np.full(len(marks), number) for number, marks in enumerate(matches)])
        flat = np.concatenate(matches).astype(bool)
        predictions = FillerPredictions(numbers, flat, np.ones(len(flat)), np.zeros(len(flat), dtype=bool), False, 0)
        texts = SimpleNamespace(source=SimpleNamespace(title="SST"))
        space = SimpleNamespace(texts=lambda _: texts, unit_scores=lambda *_: [np.array(values) for values in scores])
        return appendix._predictable_words(space, "sst", predictions)

    def test_predictable_words_are_compared_text_by_text_with_the_others(self):
        """Sizes 0 .25 1 and .5 1 and 0 0: means .5 .5 0 of matches and .25 1 0 of others, which flips cannot tell."""
        scores = [[0.0, 1.0, -4.0], [1.0, -2.0], [3.0, 3.0], [5.0, 1.0, 1.0], [0.0, 0.0]]
        matches = [[1, 0, 1], [1, 0], [1, 1], [1, 0], [1, 0]]  # the third matches throughout, the fourth lacks a word
        verdict = self.predictable(scores, matches)
        assert verdict.figures == ".333 against .417 in 3 texts"
        assert verdict.p == 1.0
        assert verdict.word == "not significant"

    def test_predictable_words_near_0_in_six_texts_are_enough(self):
        verdict = self.predictable([[0.0, 2.0]] * 6, [[1, 0]] * 6)
        assert (verdict.word, verdict.p) == ("holds", 2 / 2**6)
        assert verdict.figures == ".000 against 1.000 in 6 texts"
        assert self.predictable([[2.0, 0.0]] * 6, [[1, 0]] * 6).word == "does not hold"
        assert self.predictable([[2.0, 0.0]], [[1, 1]]).word == "not judged"

    def test_correlation_of_both_rules_is_compared_with_the_papers(self):
        """r = 1/2 of deviations -1 0 1 and -1 1 0; a text of one word has none."""
        first, half, one_word = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]), np.array([1.0])
        (verdict,) = appendix.correlation_claim([first] * 6 + [one_word], [2 * first] * 6 + [one_word]).verdicts
        assert (verdict.word, verdict.figures) == ("holds", "r 1.000 in 6 texts")
        assert verdict.p == 2 / 2**6
        (verdict,) = appendix.correlation_claim([first] * 6, [half] * 6).verdicts
        assert (verdict.word, verdict.figures) == ("does not hold", "r .500 in 6 texts")
        (verdict,) = appendix.correlation_claim([one_word], [one_word]).verdicts
        assert verdict.word == "not judged"

    @pytest.mark.parametrize(
        ("threshold", "texts", "word"),
        [
            (0.4, 8, "holds"),  # both rules below all LOO methods
            (0.6, 8, "does not hold"),  # one below, one above
            (0.4, 4, "not significant"),  # p = 2 / 2^4
        ],
    )
    def test_both_rules_stand_to_the_loo_methods_alike(self, threshold, texts, word):
        means = {IM: 0.3, "im-threshold": threshold, **dict.fromkeys(table1.RIVALS, 0.5)}
        table = texts_table("deletion", {key: [mean] * texts for key, mean in means.items()})
        (verdict,) = appendix.same_order_claim(table, "deletion").verdicts
        assert verdict.word == word
        assert verdict.p == 2 / 2**texts
        assert verdict.figures.startswith(f"IM .300, IM, likelihood ≥ 1e-5 {threshold:.3f}, ".replace("0.", "."))

    def test_no_order_is_judged_where_nothing_was_measured(self):
        table = texts_table("deletion", {key: [np.nan] * 3 for key in (IM, "im-threshold", *table1.RIVALS)})
        assert appendix.same_order_claim(table, "deletion").verdicts[0].word == "not judged"


class TestFigure4:
    table = seeds_table({"lime": falling(0.9, 0.8, 0.75), "lime-bert": falling(0.9, 0.7, 0.6)})

    def test_lines_are_means_over_shares_and_bars_the_intervals(self, monkeypatch, tmp_path):
        grids, lines = [], []
        monkeypatch.setattr(figure4, "grid", lambda *arguments, **named: grids.append((arguments, named)))
        figure4.draw_figure4([("ROAR", self.table), ("ROAR-BERT", self.table)], tmp_path)
        (((path, _, columns, draw), named),) = grids
        assert path == tmp_path / "figure4.png"
        assert columns == ["ROAR", "ROAR-BERT"]
        assert named["ylim"] == (pytest.approx(0.55), 1.0)  # a little below the lowest mean

        def errorbar(shares, means, yerr, **style):
            lines.append((style["label"], shares, means))
            assert all(0 < spread <= 0.01 for side in yerr for spread in side)

        draw(SimpleNamespace(errorbar=errorbar, legend=lambda **_: None), "", "ROAR")
        assert [label for label, _, _ in lines] == ["LIME", "LIME-BERT"]
        assert lines[1][1] == [0, 10, 30]
        assert lines[1][2] == pytest.approx([0.9, 0.7, 0.6])

    def test_it_is_written(self, tmp_path):
        pytest.importorskip("matplotlib")
        (path,) = figure4.draw_figure4([("ROAR", self.table)], tmp_path)
        assert path.read_bytes().startswith(b"\x89PNG")

    def test_the_appendix_draws_it_from_its_tables_of_a6(self, reports, tmp_path, monkeypatch):
        drawn = []
        monkeypatch.setattr(appendix, "draw_figure4", lambda titled, _: drawn.extend(titled) or [])
        reports("im-appendix").draw_figures(tmp_path)
        assert [title for title, _ in drawn] == list(table2.TITLES.values())


class TestRandomHeads:
    """Claims about random heads are tested over texts and, with enough heads, over these."""

    def table(self, *differences):
        """Changes of the scores of 20 texts; with head h those of IM are smaller by differences[h]."""
        texts, columns = np.linspace(0.3, 0.5, 20), tuple(sanity.COLUMNS.values())
        changes_by_row = {IM: [texts - difference for difference in differences], LOO: [texts] * len(differences)}
        table_rows = []
        for key, changes in changes_by_row.items():
            cell, means = Cell(tuple(np.mean(changes, 0).tolist())), tuple(np.mean(changes, 1).tolist())
            run_means = dict.fromkeys(columns, means)
            table_rows.append(TableRow(ROWS[key].title, dict.fromkeys(columns, cell), run_means=run_means))
        names = tuple(f"text {number}" for number in range(20))
        return Table(tuple(table_rows), columns, names, None, "", "m", "pad", 0, {})

    def verdict(self, *differences):
        return sanity.claims([("here", self.table(*differences), None)])[1].verdicts[0]

    def test_three_heads_are_counted_and_too_few_for_a_test(self):
        verdict = self.verdict(0.1, 0.2, -0.05)
        assert verdict.word == "holds"  # over texts, of which all have a smaller mean
        assert verdict.figures.endswith("lower with 2 of 3 random heads, too few for a test over heads")

    def test_six_heads_that_agree_are_enough(self):
        verdict = self.verdict(0.1, 0.2, 0.05, 0.1, 0.2, 0.1)
        assert verdict.word == "holds"
        assert verdict.p == pytest.approx(2 / 2**6)  # no flip but that of all heads, or of none, is as far from 0
        assert "lower with 6 of 6 random heads, p = .031 over heads" in verdict.figures

    def test_a_difference_that_rests_on_one_head_is_not_significant(self):
        verdict = self.verdict(0.9, -0.01, -0.01, -0.01, -0.01, -0.01)
        assert verdict.word == "not significant"  # although it is lower for every text
        assert "lower with 1 of 6 random heads" in verdict.figures

    def test_reports_count_heads_and_cascades(self, reports):
        text = reports("im-sanity").to_markdown()
        assert re.search(r"lower with [012] of 2 random heads, too few for a test over heads", text)
        assert re.search(r"lower with [012] of 2 random models, too few for a test over models", text)
        assert "Lowest and highest mean of the 2 random heads: sanity-sign-changes LOO-empty" in text


class TestMistakes:
    def test_rows(self):
        assert select_rows(["im"], rows.DELETION_ROWS) == ("im", "random")
        with pytest.raises(OptionError, match="there is no row 'lime' in this table"):
            select_rows(["lime"], rows.DELETION_ROWS)

    @pytest.mark.skipif(bool(filler_names()), reason="with the MiniLM package the filler is here")
    def test_a_filler_that_is_not_here(self, shared):
        empty = Workspace(shared.request, shared.models)
        with pytest.raises(OptionError, match="the filler minilm-filler is not in zoo/"):
            table1.table1a(empty)

    def test_options_that_a_table_does_not_take(self):
        refused = command("reproduce", "im-table1a", "--train-texts", "5")
        assert refused.exit_code == 2
        assert "im-table1a takes no --train-texts" in error(refused)
        for name, option in {("im-table1a", "runs"), ("im-table1a", "samples"), ("im-table4", "samples")}:
            with pytest.raises(OptionError, match=f"{name} takes no --{option}, which would change nothing; beside"):
                EXPERIMENTS[name].run(Request(**{option: 5}))

    @pytest.mark.slow  # every table anew
    @pytest.mark.parametrize("name", TABLES)
    def test_a_table_takes_the_options_that_it_reads(self, name, tmp_path, monkeypatch):
        for module in (appendix, sanity, table1, table2, table3, table4):  # it prints what a table takes
            monkeypatch.setattr(module, "settings_text", lambda *_: "")
        space = workspace(write_data(tmp_path))
        read = set()

        class RecordedRequest(Request):
            def __getattribute__(self, option):
                read.add(option)
                return super().__getattribute__(option)

        space.request = RecordedRequest(**{spec.name: getattr(space.request, spec.name) for spec in fields(Request)})
        read.clear()
        TABLES[name](space)
        optional = {spec.name for spec in fields(Request)} - {*COMMON_OPTIONS, "tf32"}
        assert read & optional == {*EXPERIMENTS[name].accepted_options} - {"tf32"}
        assert "--samples must be at least 1" in error(command("reproduce", "im-table3", "--samples", "0"))
