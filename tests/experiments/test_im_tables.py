"""The tables of Pham et al. 2022: all of them on small data, known answers, and verdicts worked out by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
from commands import error
from commands import run as command
from experiments.im_data import workspace, write_data

from rationales.errors import OptionError
from rationales.evaluation.tables.table import Cell, Table, TableRow
from rationales.experiments import EXPERIMENTS, Request
from rationales.experiments.input_marginalization import appendix, rows, table1, table2, table4
from rationales.experiments.input_marginalization.reporting import higher_than_all, lower_than_all, standing
from rationales.experiments.input_marginalization.rows import IM, LOO, RANDOM, ROWS, select_rows
from rationales.experiments.input_marginalization.tables import TABLES, row_names
from rationales.experiments.input_marginalization.workspace import SST2, Workspace
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
            if {"MaRC"} <= {row.title for row in table.rows} or name == "im-table4":
                titles = " ".join(row.title for row in table.rows)
                assert all(title in titles for title in ("MaRC", "Integrated gradients", "Random"))
            assert Table.from_json(table.to_json()).rows[0].title == table.rows[0].title
        assert f"Command: `rationales reproduce {name} --data DIR --seed 0" in text
        assert "## The paper's claims" in text
        for verdict in re.findall(r"\*\*holds(.*?)\*\*", text):
            assert re.match(r", p [=<] \.\d+", verdict)

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
        part = Workspace(request, shared.models, shared.fillers)
        text = appendix.appendix(part).to_markdown()
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
        assert "--samples must be at least 1" in error(command("reproduce", "im-table3", "--samples", "0"))
