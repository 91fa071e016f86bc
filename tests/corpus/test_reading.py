"""Every record of an input is accounted for: explained, failed with a reason and a position, or skipped."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as parquet
from runs import content, rows, run, write_table

from rationales.corpus import open_results
from rationales.corpus.reading import tables
from rationales.corpus.reading.sources import RecordColumns, TextFormat, open_input
from rationales.corpus.reading.tables import BadRow, Row, csv_rows, json_rows
from rationales.corpus.records import BadRecord, Record, Selection, parse_condition
from rationales.corpus.shards import shards
from rationales.data.row_files import MAX_LENGTH
from rationales.errors import DataError, OptionError


def items(paths, *, text="text", identifier=None, input_format=None, **selection):
    selection["where"] = tuple(map(parse_condition, selection.get("where", ())))
    source = open_input(paths, RecordColumns(text, identifier), Selection(**selection), input_format)
    return [item for item, _ in source]


def summary(records):
    """(position, id, text or reason) of each record that is not skipped."""
    return [
        (item.position, item.id, item.text if isinstance(item, Record) else item.reason)
        for item in records
        if item is not None
    ]


class TestFormats:
    TEXTS = ("one, two", "three")

    def check(self, path, **options):
        assert summary(items(path, **options)) == [(0, "x", "one, two"), (1, "1", "three")]

    def test_csv(self, tmp_path):
        (tmp_path / "t.csv").write_text('id,text\nx,"one, two"\n,three\n', encoding="utf-8")
        self.check(tmp_path / "t.csv")

    def test_tsv_with_a_byte_order_mark(self, tmp_path):
        (tmp_path / "t.tsv").write_text("\ufeffid\ttext\nx\tone, two\n\tthree\n", encoding="utf-8")
        self.check(tmp_path / "t.tsv")

    def test_packed_json_lines(self, tmp_path):
        lines = '{"id": "x", "text": "one, two"}\n\n{"text": "three"}\n'
        (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
        self.check(tmp_path / "t.jsonl.gz")

    @pytest.mark.parametrize("suffix", ["parquet", "arrow"])
    def test_columns_of_arrow(self, tmp_path, suffix):
        table = pa.table({"id": ["x", None], "text": list(self.TEXTS), "unused": [1, 2]})
        path = tmp_path / f"t.{suffix}"
        if suffix == "parquet":
            parquet.write_table(table, path)
        else:
            with pa.ipc.new_stream(path, table.schema) as writer:
                writer.write_table(table)
        self.check(path)

    def test_named_columns(self, tmp_path):
        (tmp_path / "t.csv").write_text('key,review\nx,"one, two"\n,three\n', encoding="utf-8")
        self.check(tmp_path / "t.csv", text="review", identifier="key")

    def test_a_folder_of_texts_in_the_order_of_the_names(self, tmp_path):
        (tmp_path / "deep").mkdir()
        for name in ("b.txt", "deep/c.md", ".hidden.txt", "a.txt"):
            (tmp_path / name).write_text(name, encoding="utf-8")
        assert summary(items(tmp_path)) == [
            (0, "a.txt", "a.txt"), (1, "b.txt", "b.txt"), (2, "deep/c.md", "deep/c.md")]  # fmt: skip

    def test_a_glob_and_a_folder_of_tables(self, tmp_path):
        for number in (2, 1):
            (tmp_path / f"t{number}.csv").write_text(f"text\ntext of {number}\n", encoding="utf-8")
        expected = [(0, "0", "text of 1"), (1, "1", "text of 2")]
        assert summary(items(str(tmp_path / "t*.csv"))) == expected
        assert summary(items(tmp_path)) == expected

    def test_a_data_set_on_disk_is_the_files_that_it_lists(self, tmp_path):
        table = pa.table({"text": ["one", "two", "three"]})
        (tmp_path / "train").mkdir()
        names = ("data-00000-of-00002.arrow", "data-00001-of-00002.arrow", "cache-0123456789abcdef.arrow")
        for number, name in enumerate(names):
            with pa.ipc.new_stream(tmp_path / "train" / name, table.schema) as writer:
                writer.write_table(table.slice(number, 1))
        state = {"_data_files": [{"filename": name} for name in names[:2]]}
        (tmp_path / "train" / "state.json").write_text(json.dumps(state), encoding="utf-8")
        (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}', encoding="utf-8")
        assert summary(items(tmp_path)) == [(0, "0", "one"), (1, "1", "two")]

    def test_pairs(self, tmp_path):
        (tmp_path / "t.csv").write_text("text,pair\na man,a woman\nalone,\n", encoding="utf-8")
        assert [record.raw_input for record in items(tmp_path / "t.csv")] == [("a man", "a woman"), "alone"]

    def test_lines_of_standard_input(self, monkeypatch):
        stream = io.TextIOWrapper(io.BytesIO(b"first\n\nsecond\n"))
        monkeypatch.setattr("sys.stdin", stream)
        assert summary(items("-")) == [(0, "0", "first"), (1, "1", "second")]

    def test_what_is_no_input(self, tmp_path):
        for paths in (tmp_path / "none.csv", str(tmp_path / "*.csv"), tmp_path):
            with pytest.raises(DataError, match=r"there is no file|no file matches|nothing to explain"):
                items(paths)
        (tmp_path / "a.bin").write_bytes(b"x")
        with pytest.raises(DataError, match="say --format"):
            items(tmp_path / "a.bin")


class TestSelection:
    @pytest.fixture
    def table(self, tmp_path):
        return write_table(tmp_path / "t.csv", 200)

    def test_filters(self, table):
        admitted = items(table, where=["lang=en"])
        assert [item is not None for item in admitted] == [bool(number % 2) for number in range(200)]
        assert not any(items(table, where=["lang=en", "lang!=en"]))
        (first, *_) = items(table, where=["colour=red"])
        assert (first.reason, first.id) == ("missing-column", "r0")

    def test_a_sample_is_a_share_and_the_same_every_time(self, table):
        sampled = [item is not None for item in items(table, sample=0.3)]
        assert sampled == [item is not None for item in items(table, sample=0.3)]
        assert sampled != [item is not None for item in items(table, sample=0.3, seed=1)]
        assert 0.2 < sum(sampled) / 200 < 0.4

    def test_a_limit_counts_what_is_admitted(self, table):
        assert len(items(table, limit=5)) == 5
        assert sum(item is not None for item in items(table, limit=5, where=["lang=en"])) == 5

    def test_lengths(self, table):
        lengths = {len(item.text.split()) for item in items(table, min_words=4, max_words=5) if item}
        assert lengths == {4, 5}

    @pytest.mark.parametrize("options", [{"sample": 0}, {"sample": 2}, {"limit": 0}, {"where": ["colour"]}], ids=str)
    def test_nonsense_is_refused(self, table, options):
        with pytest.raises(OptionError):
            items(table, **options)


class TestBadRecords:
    def test_each_has_its_reason_and_the_rest_is_read(self, tmp_path):
        lines = [
            b"id,text",
            b"a,good",
            b"b,",
            b"c,caf\xe9",
            b'd,"never closed',
            b"e,too,many",
            b"f,nul\x00",
            b"g," + b"x" * (MAX_LENGTH + 1),
            b'h,"two\nlines"',
            b"i,last",
        ]
        (tmp_path / "t.csv").write_bytes(b"\n".join(lines) + b"\n")
        records = items(tmp_path / "t.csv")
        assert [(item.location.split(", ")[1], reason) for item, (_, _, reason) in
                zip(records, summary(records), strict=True)] == [
            ("line 2", "good"),
            ("line 3", "empty"),
            ("line 4", "not-utf-8"),
            ("line 5", "broken-row"),
            ("line 6", "broken-row"),
            ("line 7", "not-text"),
            ("line 8", "too-long"),
            ("line 9", "two\nlines"),
            ("line 11", "last"),
        ]  # fmt: skip

    def test_a_long_text_in_quotes_is_one_record(self, tmp_path):
        """Longer than the 131,072 characters that csv takes by default: on one line, and over many."""
        one_line, many_lines = "word " * 30_000, "this is, a line of the text\n" * 6000
        lines = ["id,text", "a,first", f'b,"{many_lines}"', f"c,{one_line}", "d,last"]
        (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        assert summary(items(tmp_path / "t.csv")) == [
            (0, "a", "first"), (1, "b", many_lines), (2, "c", one_line), (3, "d", "last")]  # fmt: skip

    def test_the_limit_of_the_csv_module_stays_as_it_was(self):
        usual = csv.field_size_limit()
        reader = csv_rows(io.BytesIO(f'text\n"{"long " * 40_000}"\nlast\n'.encode()), "t.csv", ",")
        assert len(next(reader).values["text"]) == 200_000
        assert csv.field_size_limit() == usual  # also while the table is being read
        assert next(reader).values["text"] == "last"

    @pytest.fixture
    def short_limits(self, monkeypatch):
        monkeypatch.setattr(tables, "MAX_LENGTH", 4000)
        monkeypatch.setattr(tables, "LOOK_AHEAD", 16_000)

    def test_a_row_that_is_too_long_is_skipped_as_a_whole(self, tmp_path, short_limits):
        cells = ["two, words\n" * count for count in (400, 1400)]  # 4,400 and 15,400 characters
        raw = "id,text\n" + "".join(f'b{number},"{cell}"\n' for number, cell in enumerate(cells)) + "c,last\n"
        (tmp_path / "t.csv").write_text(raw, encoding="utf-8")
        assert [reason for _, _, reason in summary(items(tmp_path / "t.csv"))] == ["too-long", "too-long", "last"]

    def test_a_quote_that_stays_open_costs_one_line_of_a_long_table(self, tmp_path, short_limits):
        (tmp_path / "t.csv").write_text('id,text\na,"open\n' + "b,a text.\n" * 2000, encoding="utf-8")
        first, *further = summary(items(tmp_path / "t.csv"))
        assert first[-1] == "broken-row"
        assert [text for _, _, text in further] == ["a text."] * 2000

    def test_two_columns_of_the_same_name_are_refused(self, tmp_path):
        columns = [pa.array(["x"]), pa.array(["good"]), pa.array(["bad"])]
        parquet.write_table(pa.Table.from_arrays(columns, names=["id", "text", "text"]), tmp_path / "t.parquet")
        with pytest.raises(DataError, match=r"t\.parquet: there are 2 columns 'text'; rename all but the one"):
            run(tmp_path / "t.parquet", tmp_path / "out")
        parquet.write_table(pa.Table.from_arrays(columns, names=["text", "note", "note"]), tmp_path / "t.parquet")
        assert run(tmp_path / "t.parquet", tmp_path / "out").explained == 1, "the second column is not read"

    @pytest.mark.skipif(os.name != "posix", reason="file names are not bytes there")
    def test_a_file_name_that_is_not_utf8_is_escaped(self, tmp_path):
        for folder, content_of_file in (("tables", b'{"text": "good"}\n'), ("texts", b"good")):
            (tmp_path / folder).mkdir()
            suffix = b".jsonl" if folder == "tables" else b".txt"
            with open(os.fsencode(tmp_path / folder) + b"/caf\xe9" + suffix, "wb") as file:  # noqa: PTH123  # bytes
                file.write(content_of_file)
            assert run(tmp_path / folder, tmp_path / f"out-{folder}").explained == 1
            assert "caf\\udce9" in rows(tmp_path / f"out-{folder}")[0]["location"]

    def test_json_lines(self, tmp_path):
        lines = ['{"text": "good"}', "[1]", '{"text": 3}', "{", '{"text": NaN}', '{"text": null}', '{"t": "x"}']
        lines += ["[" * 100_000, '{"text": "\\ud800"}', '{"text": ' + "9" * 5000 + "}", '{"text": "last"}']
        (tmp_path / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
        reasons = [entry[2] for entry in summary(items(tmp_path / "t.jsonl"))]
        assert reasons[:7] == ["good", "broken-row", "not-text", "broken-row", "empty", "empty", "missing-column"]
        assert reasons[7:9] == ["broken-row", "not-utf-8"]
        assert reasons[10] == "last"

    def test_a_truncated_archive_is_one_bad_record_after_the_good_ones(self, tmp_path):
        raw = b"".join(
            json.dumps({"text": f"text {number} {number * 7919}"}).encode() + b"\n" for number in range(9999)
        )
        packed = gzip.compress(raw)
        (tmp_path / "t.jsonl.gz").write_bytes(packed[: len(packed) // 2])
        records = items(tmp_path / "t.jsonl.gz")
        assert [item.reason for item in records if isinstance(item, BadRecord)] in (
            ["unreadable-file"], ["broken-row", "unreadable-file"])  # fmt: skip
        assert len(records) > 1000

    def test_wrong_columns_are_told_before_anything_is_explained(self, tmp_path):
        (tmp_path / "t.csv").write_text("review\ngood\n", encoding="utf-8")
        with pytest.raises(DataError, match=r"no column 'text'; say --text-column, one of: review"):
            run(tmp_path / "t.csv", tmp_path / "out")
        parquet.write_table(pa.table({"review": ["good"]}), tmp_path / "t.parquet")
        with pytest.raises(DataError, match=r"no column 'text'; say --text-column, one of: review"):
            run(tmp_path / "t.parquet", tmp_path / "out")
        (tmp_path / "t.csv").write_text("id,text\na,good\n", encoding="utf-8")
        for options in ({"where": ["colour=red"]}, {"id_column": "colour"}):
            with pytest.raises(DataError, match=r"no column 'colour'; say --(where|id-column), one of: id, text"):
                run(tmp_path / "t.csv", tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()


class TestTextFormats:
    TEXTS = "id{0}text\na{0}café, warm\n"

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "cp1252", "utf-8-sig"])
    def test_other_encodings(self, tmp_path, encoding):
        (tmp_path / "t.tsv").write_bytes(self.TEXTS.format("\t").encode(encoding))
        (tmp_path / "t.txt").write_bytes("café, warm".encode(encoding))
        for name, identifier in (("t.tsv", "a"), ("t.txt", "t.txt")):
            records = open_input(tmp_path / name, RecordColumns(), Selection(), None, TextFormat(encoding))
            assert summary(item for item, _ in records) == [(0, identifier, "café, warm")]

    def test_what_is_not_in_the_encoding_is_one_error(self, tmp_path):
        (tmp_path / "t.csv").write_bytes("text\ngood\n".encode("utf-16-le") + b"\x00\xd8" + b"x" * 7)
        records = open_input(tmp_path / "t.csv", RecordColumns(), Selection(), None, TextFormat("utf-16-le"))
        *_, (last, _) = records
        assert (last.reason, "utf-16-le" in last.message) == ("unreadable-file", True)

    def test_utf16_is_recognised(self, tmp_path):
        for suffix in ("csv", "jsonl"):
            (tmp_path / f"t.{suffix}").write_bytes("text\ngood\n".encode("utf-16"))
            with pytest.raises(DataError, match="is UTF-16, not UTF-8; say --encoding utf-16"):
                run(tmp_path / f"t.{suffix}", tmp_path / "out")
        assert run(tmp_path / "t.csv", tmp_path / "out", encoding="utf-16").explained == 1

    @pytest.mark.parametrize(
        ("mark", "advice"), [(";", "--delimiter ';'"), ("|", "--delimiter '|'"), ("\t", "--format tsv")]
    )
    def test_another_delimiter_is_recognised(self, tmp_path, mark, advice):
        (tmp_path / "t.csv").write_text(self.TEXTS.format(mark), encoding="utf-8")
        with pytest.raises(DataError, match=f"say {re.escape(advice)}"):
            run(tmp_path / "t.csv", tmp_path / "out")
        run(tmp_path / "t.csv", tmp_path / "out", delimiter=mark)
        assert [row["text"] for row in rows(tmp_path / "out")] == ["café, warm"]

    @pytest.mark.parametrize("options", [{"encoding": "utf-99"}, {"encoding": "base64"}, {"delimiter": "ab"}], ids=str)
    def test_formats_that_do_not_exist(self, tmp_path, options):
        with pytest.raises(OptionError, match="for instance"):
            run(write_table(tmp_path / "t.csv"), tmp_path / "out", **options)

    def test_the_suffix_ndjson(self, tmp_path):
        (tmp_path / "t.ndjson").write_text('{"text": "good"}\n', encoding="utf-8")
        assert summary(items(tmp_path / "t.ndjson")) == summary(items(tmp_path)) == [(0, "0", "good")]


class TestOutputsAreNoInput:
    @pytest.mark.parametrize("pattern", [".", "**/*.*", "*.csv"])
    def test_results_and_log_inside_the_input_are_not_read(self, tmp_path, monkeypatch, pattern):
        monkeypatch.chdir(tmp_path)
        write_table(tmp_path / "t.csv", 6)
        first = run(pattern, "out", log="log.jsonl")
        again = run(pattern, "out", log="log.jsonl")
        assert (first.records, again.records, again.shards_now) == (6, 6, 0)
        assert run(pattern, "out", restart=True).records == 6 if pattern == "*.csv" else True

    def test_an_input_inside_the_output_is_refused(self, tmp_path):
        run(write_table(tmp_path / "t.csv", 6), tmp_path / "out")
        for path in (tmp_path / "out", tmp_path / "out" / "shards" / "000000.parquet"):
            with pytest.raises(OptionError, match="lies where the run writes"):
                run(path, tmp_path / "out")


class TestShares:
    """The share of the input that is read grows with every record and ends at 1."""

    def shares(self, paths):
        return [share for _, share in open_input(paths, RecordColumns(), Selection())]

    def test_parquet_and_arrow(self, tmp_path):
        table = pa.table({"text": [f"text {number}" for number in range(1000)]})
        parquet.write_table(table, tmp_path / "t.parquet", row_group_size=300)
        with pa.ipc.new_stream(tmp_path / "s.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=400)
        with pa.ipc.new_file(tmp_path / "f.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=400)
        assert self.shares(tmp_path / "t.parquet") == pytest.approx([number / 1000 for number in range(1, 1001)])
        for name in ("s.arrow", "f.arrow"):
            shares = self.shares(tmp_path / name)
            assert shares == sorted(set(shares))
            assert shares[499] == pytest.approx(0.5, abs=0.1)
            assert 0.9 < shares[-1] <= 1

    def test_mixed_files_count_by_their_bytes(self, tmp_path):
        table = pa.table({"text": [f"text {number}" for number in range(100)]})
        parquet.write_table(table, tmp_path / "b.parquet")
        write_table(tmp_path / "a.csv", 50)
        first, second = ((tmp_path / name).stat().st_size for name in ("a.csv", "b.parquet"))
        shares = self.shares([tmp_path / "a.csv", tmp_path / "b.parquet"])
        assert shares == sorted(set(shares))
        assert shares[49] == pytest.approx(first / (first + second))
        assert shares[99] == pytest.approx((first + second / 2) / (first + second))
        assert shares[-1] == pytest.approx(1)


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)


@given(st.binary(max_size=400))
def test_any_bytes_can_be_read(raw):
    for rows_of in (lambda file: csv_rows(file, "t", ","), lambda file: json_rows(file, "t")):
        for row in rows_of(io.BytesIO(raw)):
            assert isinstance(row, (Row, BadRow))


@given(
    st.lists(
        st.sampled_from([b"a,b", b'"', b'"x,y"', b"a,b,c", b"", b"\xff\xfe", b'a,"b', b"\r", b",", b"\x00"]),
        max_size=12,
    )
)
def test_every_line_of_a_broken_table_belongs_to_a_row(lines):
    """Rows and bad rows begin at all lines but the header and empty ones: none is lost, none read twice."""
    raw = b"p,q\n" + b"".join(line + b"\n" for line in lines)
    numbers = [int(row.location.rpartition(" ")[2]) for row in csv_rows(io.BytesIO(raw), "t", ",")]
    assert numbers == sorted(set(numbers)), "a line was read twice, or out of order"
    covered = set(numbers)
    well_formed = {number for number, line in enumerate(lines, 2) if line in (b"a,b", b"a,b,c", b'"x,y"')}
    quotes = any(b'"' in line and line != b'"x,y"' for line in lines)
    if not quotes and b"\r" not in lines:
        assert well_formed <= covered


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_a_table_that_python_wrote_is_read_back(table):
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([("id", "text"), *table])
    rows_read = list(csv_rows(io.BytesIO(file.getvalue().encode()), "t", ","))
    assert [tuple(row.values.values()) for row in rows_read] == table


FUZZED_LINES = st.lists(
    st.one_of(
        st.text(max_size=30).map(lambda text: json.dumps({"text": text}).encode()),
        st.binary(max_size=30),
        st.sampled_from([b'{"text": ""}', b'{"text": "caf\xe9"}', b'{"other": 1}', b"null", b'{"text": "two words"}']),
    ),
    min_size=1,
    max_size=12,
)


def check_counts(folder, lines):
    """Each line that is not empty is explained or has an error; the counts add up."""
    (folder / "t.jsonl").write_bytes(b"\n".join(lines))
    expected = sum(1 for line in b"\n".join(lines).split(b"\n") if line.decode("utf-8", "surrogateescape").strip())
    if not expected:
        return
    result = run(folder / "t.jsonl", folder / "out", where=[])
    assert result.records == expected == result.explained + result.failed + result.skipped
    positions = [row["position"] for row in rows(folder / "out")]
    failed = [error["position"] for error in open_results(folder / "out").errors()]
    assert sorted([*positions, *failed]) == list(range(expected))
    assert sum(result.reasons.values()) == result.failed


@settings(max_examples=25)
@given(FUZZED_LINES)
def test_counts_of_a_fuzzed_corpus_add_up(tmp_path_factory, lines):
    check_counts(tmp_path_factory.mktemp("fuzz"), lines)


@pytest.mark.slow
@settings(max_examples=1000)
@given(FUZZED_LINES)
def test_counts_of_a_thousand_fuzzed_corpora_add_up(tmp_path_factory, lines):
    check_counts(tmp_path_factory.mktemp("fuzz"), lines)


ENCODED = st.text(max_size=20).flatmap(
    lambda text: st.sampled_from(["utf-8", "latin-1", "utf-16", "cp1252"]).map(
        lambda encoding: text.encode(encoding, "ignore")
    )
)
LONG_CELL = b'"' + b"a, b, c, d, e\n" * 15_000 + b'"'  # longer than csv takes by default; no line of it is a row
FUZZED_FILES = st.tuples(
    st.sampled_from([".csv", ".tsv", ".jsonl", ".lines"]),
    st.sampled_from(
        [b"text", b"id,text", b"text,id", b"id\ttext", b"review", b"", b'"text', b"\xff\xfe", b"text,text"]
    ),
    st.lists(
        st.one_of(
            ENCODED,
            st.binary(max_size=30),
            st.text(max_size=20).map(lambda text: json.dumps({"text": text}).encode()),
            st.sampled_from([b'a,"b', b'"a ""b"" c"', b"a,b,c,d", b'{"text": ["x"]}', b'{"txt": "x"}', b"plain words"]),
            st.just(b"x" * 10_000_000),
            st.just(LONG_CELL),
        ),
        max_size=8,
    ),
).filter(lambda file: file[0] in (".csv", ".tsv") or LONG_CELL not in file[2])


def check_any_file(folder, suffix, header, lines):
    """The file is refused in words, or each of its records is explained or has an error, once."""
    path = folder / f"t{suffix}"
    raw = b"\n".join([header, *lines])
    path.write_bytes(raw)
    decoded = raw.decode("utf-8", "surrogateescape")
    try:
        result = run(path, folder / "out", input_format="lines" if suffix == ".lines" else None)
    except DataError:  # no records at all, or a table without a column of texts
        is_utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        assert suffix in (".csv", ".tsv") or is_utf16 or not decoded.removeprefix("\ufeff").strip()
        return
    assert result.records == result.explained + result.failed + result.skipped > 0
    positions = [row["position"] for row in rows(folder / "out")]
    errors = list(open_results(folder / "out").errors())
    assert sorted([*positions, *(error["position"] for error in errors)]) == list(range(result.records))
    assert all(error["reason"] and error["message"] and error["location"] for error in errors)
    assert sum(result.reasons.values()) == result.failed == len(errors)
    too_long = sum(len(line) > MAX_LENGTH for line in lines)
    if suffix in (".lines", ".jsonl"):
        assert result.reasons.get("too-long", 0) == too_long
    elif not any(b'"' in line for line in (header, *lines) if line != LONG_CELL):
        assert result.records <= raw.replace(LONG_CELL, b"").count(b"\n") + 1, "a long text is one record"


@settings(max_examples=25, deadline=None)
@given(FUZZED_FILES)
def test_any_file_is_accounted_for(tmp_path_factory, file):
    check_any_file(tmp_path_factory.mktemp("fuzz"), *file)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(FUZZED_FILES)
def test_a_thousand_files_are_accounted_for(tmp_path_factory, file):
    check_any_file(tmp_path_factory.mktemp("fuzz"), *file)


def test_open_records_do_not_grow_with_the_corpus(tmp_path):
    small, large = (run(write_table(tmp_path / f"{count}.csv", count), tmp_path / f"{count}") for count in (20, 200))
    assert small.peak_open_records == large.peak_open_records == 4


def test_shards_end_at_a_number_of_characters_too(tmp_path, monkeypatch):
    monkeypatch.setattr("rationales.corpus.shards.SHARD_CHARACTERS", 30)
    table = write_table(tmp_path / "t.csv", 30)
    source = open_input(table, RecordColumns(), Selection())
    divided = list(shards(source, 512))
    assert sum(shard.count for shard in divided) == 30
    assert all(sum(record.size for record in shard.records[:-1]) < 30 for shard in divided)


def test_skipped_records_at_the_end_are_counted(tmp_path):
    table = write_table(tmp_path / "t.csv", 9)
    result = run(table, tmp_path / "out", where=["id=r1"])
    assert (result.records, result.explained, result.skipped) == (9, 1, 8)
    assert not [name for name in content(tmp_path / "out") if name.endswith(".part")]


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious.txt").write_text("keep me")
    with pytest.raises(OptionError, match=r"precious\.txt"):
        run(write_table(tmp_path / "t.csv"), tmp_path / "out", restart=True)
    assert Path(tmp_path / "out" / "precious.txt").read_text() == "keep me"
