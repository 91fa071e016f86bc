"""A budget of forward passes for Table 1: what it reduces, that the table says so, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from commands import error
from commands import run as command
from reviews import known_model, movies

import rationales
from rationales.evaluation.protocols import PRESETS
from rationales.experiments import Request
from rationales.experiments.marc_table1 import run
from rationales.experiments.marc_table1.budget import (
    DEFAULT_PASSES,
    LEVEL_COUNTS,
    SMALL_LIMIT,
    budget,
    measuring_passes,
    reduce_row,
    reduced_protocol,
)
from rationales.experiments.marc_table1.claims import claims
from rationales.experiments.marc_table1.row_specs import MARC, ROWS, is_reduced, key_of, row_title
from rationales.methods import build

PASSES_OF_ALL_ROWS = 25 * 400  # Shapley sampling, the most expensive row


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr(run, "load", lambda *_, **__: rationales.load(*known_model()))


class TestBudget:
    def test_is_the_papers_settings_unless_few_reviews_run_on_a_cpu(self):
        assert budget(None, None, "cpu") is None
        assert budget(None, SMALL_LIMIT + 1, "cpu") is None
        assert budget(None, SMALL_LIMIT, "cuda") is None
        assert budget(None, SMALL_LIMIT, "cpu") == DEFAULT_PASSES

    def test_is_what_was_requested_and_nothing_for_0(self):
        assert budget(0, 2, "cpu") is None
        assert budget(90, None, "cuda") == 90

    @pytest.mark.parametrize("key", ROWS)
    def test_a_row_within_it_stays_as_it_is(self, key):
        assert reduce_row(ROWS[key], None) is ROWS[key]
        assert reduce_row(ROWS[key], PASSES_OF_ALL_ROWS) is ROWS[key]

    def test_reduces_what_takes_passes_and_nothing_else(self):
        """40 passes: 40 samples; 40 / 3 steps forward and back; 40 / 6 steps of MaRC; 400 words / 40 = 10 per pass."""
        reduced = {key: reduce_row(spec, 40) for key, spec in ROWS.items()}
        expected = {
            "lime": {"samples": 40},
            "integrated-gradients-sum": {"steps": 13},
            "occlusion": {"stride": 5},  # no larger than the window, so that every word is covered
            "shapley": {"orders": 1, "units_per_step": 10},
            MARC: {"steps": 6},
            "marc-default": {"steps": 6},
            "without-sparsity": {"steps": 6},
            "saliency-norm": {},
            "random": {},
        }
        for key, changes in expected.items():
            methods = [build(spec.method, dict(spec.options), "text") for spec in (ROWS[key], reduced[key])]
            assert methods[1] == replace(methods[0], **changes), key
        assert reduced["shapley"].cost == 40
        assert reduced["occlusion"].cost == 80
        assert reduced[MARC].cost == 36

    def test_two_orders_need_two_passes_for_every_word(self):
        shapley = build("shapley-sampling", dict(reduce_row(ROWS["shapley"], 900).options), "text")
        assert (shapley.orders, shapley.units_per_step) == (2, 1)

    @pytest.mark.parametrize("key", ROWS)
    def test_titles_say_what_is_reduced_and_lead_back_to_rows(self, key):
        spec = reduce_row(ROWS[key], 40)
        for width in (None, 6.0):
            title = row_title(spec, width)
            assert key_of(title) == key
            assert is_reduced(title) == (spec.options != ROWS[key].options)
        assert not is_reduced(row_title(ROWS[key], None))

    def test_titles_name_both_numbers(self):
        assert (
            row_title(reduce_row(ROWS["shapley"], 40), None) == "Shapley sampling [1 of 25 orders, 10 words per step]"
        )
        assert row_title(reduce_row(ROWS["lime-smoothed"], 40), 6.0) == "LIME, smoothed [40 of 50 samples] (s = 6)"
        assert row_title(reduce_row(ROWS[MARC], 40), None) == "MaRC [6 of 900 steps]"

    def test_levels_are_even_ones_of_the_protocol_and_its_name_says_how_many(self):
        assert reduced_protocol(None) is PRESETS["marc"]
        assert reduced_protocol(160) is PRESETS["marc"]  # a quarter is 40 passes: 19 levels on both sides and two more
        assert reduced_protocol(40).levels == (0.2, 0.4, 0.6, 0.8)
        assert reduced_protocol(40).name == "marc with 4 of 19 levels"
        assert reduced_protocol(80).levels == tuple(number / 10 for number in range(1, 10))
        assert reduced_protocol(1).levels == (0.5,)
        assert [measuring_passes(count) for count in LEVEL_COUNTS] == [40, 20, 10, 8, 4]


class TestRun:
    rows = ("random", "lime", "lime-smoothed", "shapley", "marc")

    def test_says_what_was_reduced_and_judges_no_claim_on_it(self, tmp_path, known):
        lines = []
        request = Request(data=movies(tmp_path), rows=self.rows, limit=2, log=lines.append)
        outcome = run.reproduce(request)
        table = outcome.table
        titles = [row.title for row in table.rows]
        assert titles[:3] == [
            "MaRC [6 of 900 steps]",
            "LIME [40 of 50 samples]",
            "Shapley sampling [1 of 25 orders, 10 words per step]",
        ]
        assert titles[3].startswith("LIME, smoothed [40 of 50 samples] (s = ")
        assert table.protocol.name == "marc with 4 of 19 levels"
        assert table.versions["passes"] == "40"
        assert lines[1].startswith(
            "A trial run with a budget of about 40 forward passes per segment and row (the default"
        )
        markdown = outcome.to_markdown()
        assert lines[1] in markdown
        assert "Rivals have the paper's settings" not in markdown
        here = [verdict for claim in claims(table) for verdict in claim.verdicts if verdict.reading.startswith("here")]
        assert all(verdict.holds is None for verdict in here)
        assert any(verdict.figures == "reduced settings: marc" for verdict in here)

    def test_without_a_budget_the_figures_are_those_of_the_papers_settings(self, tmp_path, known):
        """Two reviews have the figures that they have among all, whether the budget is off or larger than needed."""
        rows = ("random", "lime", "shapley")
        request = Request(data=movies(tmp_path), rows=rows, limit=2)
        full = run.reproduce(replace(request, limit=None)).table
        for passes in (0, PASSES_OF_ALL_ROWS):
            table = run.reproduce(replace(request, passes=passes)).table
            positions = [full.inputs.index(name) for name in table.inputs]
            assert [row.title for row in table.rows] == [ROWS[key].title for key in ("lime", "shapley", "random")]
            assert table.protocol == full.protocol == PRESETS["marc"]
            for title in ("LIME", "Shapley sampling"):
                for metric in ("average-precision", "sufficiency", "comprehensiveness"):
                    expected = [full[title].cells[metric].values[position] for position in positions]
                    assert list(table[title].cells[metric].values) == pytest.approx(expected, abs=1e-6), metric

    def test_rows_with_and_without_a_budget_are_never_mixed(self, tmp_path, known):
        (tmp_path / "out").mkdir()
        request = Request(data=movies(tmp_path), rows=["lime"], limit=2, out=tmp_path / "out")
        for passes, title in ((None, "LIME [40 of 50 samples]"), (0, "LIME"), (20, "LIME [20 of 50 samples]")):
            assert run.reproduce(replace(request, passes=passes)).table.rows[0].title == title


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["marc-table1", "--passes", "-1"], "--passes must be 0 (the paper's settings) or more"),
        (["gt-fig5", "--passes", "40"], "gt-fig5 takes no --passes"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments, message):
    assert message in error(command("reproduce", *arguments))
