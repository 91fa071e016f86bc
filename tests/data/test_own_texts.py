"""A user's own files of texts: marks in tables, and columns of any name."""

from __future__ import annotations

import csv
import json

import pytest

from rationales.data import read_data
from rationales.errors import DataError, OptionError


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


class TestMarksInTables:
    text = "Dull start, dull end; the middle is not dullish."

    def example(self, tmp_path, header, row, **options):
        path = tmp_path / "mine.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, row])
        return read_data(path, **options)[0]

    @pytest.mark.parametrize("cell", ["[[0, 4], [12, 16]]", '[{"start": 12, "end": 16}, [0, 4]]', " [[0,4],[12,16]] "])
    def test_spans_as_json_in_a_cell(self, tmp_path, cell):
        assert self.example(tmp_path, ["text", "spans"], [self.text, cell]).spans == ((0, 4), (12, 16))

    def test_an_empty_cell_says_that_nobody_was_asked_and_an_empty_list_that_nothing_was_marked(self, tmp_path):
        assert self.example(tmp_path, ["text", "spans", "phrases"], [self.text, "", " "]).spans is None
        assert self.example(tmp_path, ["text", "spans", "phrases"], [self.text, "[]", ""]).spans == ()

    def test_phrases_mark_every_occurrence_of_whole_words(self, tmp_path):
        """ "dull" stands at 12; "Dull" has another case, and "dullish" is another word."""
        assert self.example(tmp_path, ["text", "phrases"], [self.text, "dull"]).spans == ((12, 16),)
        assert self.example(tmp_path, ["text", "phrases"], ["no, no!", "no"]).spans == ((0, 2), (4, 6))
        assert self.example(tmp_path, ["text", "phrases"], [self.text, "start, dull | not dullish."]).spans == (
            (5, 16),
            (36, 48),
        )

    def test_spans_and_phrases_together_and_in_the_pair(self, tmp_path):
        header = ["text", "pair", "spans", "phrases", "pair_phrases", "pair_spans"]
        example = self.example(tmp_path, header, ["a b c", "d e", "[[0, 1]]", "c", "e", ""])
        assert (example.spans, example.pair_spans) == (((0, 1), (4, 5)), ((2, 3),))

    def test_phrases_and_spans_with_names_in_json_lines(self, tmp_path):
        write_lines(tmp_path / "m.jsonl", [{"text": "a b c", "phrases": ["b"], "spans": [{"start": 4, "end": 5}]}])
        assert read_data(tmp_path / "m.jsonl")[0].spans == ((2, 3), (4, 5))

    @pytest.mark.parametrize(
        ("column", "cell", "message"),
        [
            ("spans", "0-4", r"spans are JSON such as \[\[0, 4\], \[6, 11\]\], not '0-4'"),
            ("spans", '[{"from": 1}]', "is no span"),
            ("spans", "[[0, 99]]", "lies outside of the text"),
            ("spans", "3", "spans are a list"),
            ("phrases", "dull|bright", "the phrase 'bright' does not stand in the text"),
            ("phrases", "dul", "the phrase 'dul' does not stand in the text"),
        ],
    )
    def test_mistakes_are_told_with_their_line(self, tmp_path, column, cell, message):
        with pytest.raises(DataError, match=f"mine.csv, line 2: .*{message}"):
            self.example(tmp_path, ["text", column], [self.text, cell])


class TestColumns:
    def test_any_column_can_hold_texts_and_labels(self, tmp_path):
        path = tmp_path / "mine.csv"
        path.write_text("phrases,class,text\nall | of it,kind,7\n", encoding="utf-8")
        (example,) = read_data(path, text_column="phrases", label_column="class")
        assert (example.text, example.label, example.spans) == ("all | of it", "kind", None)
        write_lines(tmp_path / "m.jsonl", [{"body": "a b", "class": 1}])
        assert [(example.text, example.label) for example in read_data(tmp_path / "m.jsonl", text_column="body")] == [
            ("a b", None)
        ]
        assert read_data(tmp_path / "m.jsonl", text_column="body", label_column="class")[0].label == "1"

    def test_columns_that_are_not_there_are_named(self, tmp_path):
        path = tmp_path / "mine.csv"
        path.write_text("review,stars\ngood,5\n", encoding="utf-8")
        with pytest.raises(DataError, match="has no column label_; it has: review, stars"):
            read_data(path, text_column="review", label_column="label_")
        write_lines(tmp_path / "m.jsonl", [{"body": "a b"}])
        with pytest.raises(DataError, match="line 1: there is no field 'class'"):
            read_data(tmp_path / "m.jsonl", text_column="body", label_column="class")

    def test_other_data_have_no_columns(self, tmp_path):
        (tmp_path / "cats").mkdir()
        (tmp_path / "cats" / "a.jpg").touch()
        for data in (tmp_path, "eraser-movies"):
            with pytest.raises(OptionError, match=r"is no file of texts .* takes no names of columns"):
                read_data(data, text_column="x")
