"""Small files that unpack to a lot: read up to the limit or refused, and never with much memory."""

from __future__ import annotations

import csv
import gzip
import json
import tarfile
import tracemalloc
import zipfile
from contextlib import contextmanager

import pytest

from rationales.data import archives, read_data, row_files, unpacking
from rationales.data.archives import unpacked
from rationales.errors import DataError

MEGABYTE = 1 << 20
UNPACKED = 300 * MEGABYTE
ENOUGH = 40 * MEGABYTE  # memory for reading anything


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rationales" / "data"


@contextmanager
def little_memory():
    """Fail if Python objects took more than ENOUGH inside the block."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < ENOUGH


def bomb(path, head: bytes, repeated: bytes, tail: bytes = b""):
    """A gzip file of `head` and 300 MB of something repeated; members of gzip can stand one after the other."""
    copies = UNPACKED // len(repeated)
    path.write_bytes(gzip.compress(head) + gzip.compress(repeated) * copies + gzip.compress(tail))
    assert path.stat().st_size < MEGABYTE
    return path


ROW = b"fine," + b"a " * 30_000 + b",good\n"  # cells of 60 KB: 300 MB have few rows, which are read fast


@pytest.fixture
def rows(tmp_path):
    return bomb(tmp_path / "rows.csv.gz", b"name,text,label\n", ROW * 17)


class TestPackedTexts:
    def test_reading_stops_at_the_limit(self, rows):
        with little_memory():
            examples = read_data(rows, limit=2)
        assert [example.label for example in examples] == ["good", "good"]

    def test_what_is_evenly_spread_over_a_bomb_is_refused(self, rows):
        with little_memory(), pytest.raises(DataError, match="unpacks to more than 200 times its size; refused"):
            read_data(rows, limit=2, spread=True)

    def test_a_cell_without_an_end(self, tmp_path):
        path = bomb(tmp_path / "cell.csv.gz", b"text,label\n", b"a" * MEGABYTE, b",good\n")
        with little_memory(), pytest.raises(DataError, match=r"cell.csv.gz, line 2 is longer than 4 MB; refused"):
            read_data(path, limit=2)

    @pytest.mark.parametrize("field_limit", [131_072, UNPACKED])
    def test_a_quoted_cell_over_many_lines(self, tmp_path, field_limit):
        """Whatever another library made of the limit of the csv module, which is one for the process."""
        path = bomb(tmp_path / "cell.csv.gz", b'text,label\n"', (b"a" * 8191 + b"\n") * 128, b'",good\n')
        usual = csv.field_size_limit(field_limit)
        try:
            with little_memory(), pytest.raises(DataError, match=r"field limit|a row is longer than 4 MB; is a quote"):
                read_data(path, limit=2)
        finally:
            csv.field_size_limit(usual)

    def test_a_line_of_json_without_an_end(self, tmp_path):
        path = bomb(tmp_path / "line.jsonl.gz", b'{"text": "', b"a" * MEGABYTE, b'"}\n')
        with little_memory(), pytest.raises(DataError, match="line 1 is longer than 4 MB"):
            read_data(path)

    def test_brackets_without_an_end(self, tmp_path):
        (tmp_path / "deep.jsonl").write_text("[" * 200_000, encoding="utf-8")
        with pytest.raises(DataError, match=r"deep.jsonl, line 1: .* nested too deeply"):
            read_data(tmp_path / "deep.jsonl")

    def test_a_plain_file_is_not_read_past_the_limit(self, tmp_path):
        """What follows the second line is not even UTF-8."""
        path = tmp_path / "plain.jsonl"
        path.write_bytes(b'{"text": "a"}\n{"text": "b"}\n\xff\xfe' + b"x" * 8 * MEGABYTE)
        assert [example.text for example in read_data(path, limit=2)] == ["a", "b"]
        with pytest.raises(DataError, match=r"line 3 (is longer|is not UTF-8)"):
            read_data(path)

    def test_texts_that_are_merely_well_packed_are_read(self, tmp_path, monkeypatch):
        monkeypatch.setattr(unpacking, "UNCHECKED_SIZE", 1000)
        lines = [json.dumps({"text": f"the {number}th soup was {number % 7} days old"}) for number in range(2000)]
        path = tmp_path / "fine.jsonl.gz"
        path.write_bytes(gzip.compress("\n".join(lines).encode()))
        assert len(read_data(path)) == 2000
        assert [example.name for example in read_data(path, limit=2, spread=True)] == ["500", "1500"]

    def test_a_document_that_is_none(self, tmp_path):
        path = bomb(tmp_path / "document.txt.gz", b"a", b"a " * MEGABYTE)
        with little_memory(), pytest.raises(DataError, match="too much for one document"):
            row_files.text_of(path)


class TestArchives:
    def packed_tar(self, path, member, content):
        return bomb(path, member.tobuf(), content, b"\0" * 1024)

    def test_a_member_of_a_tar_is_refused_before_it_is_unpacked(self, tmp_path, cache, monkeypatch):
        farthest = []

        class Watched(unpacking.BoundedGzip):
            def read(self, size=-1):
                piece = super().read(size)
                farthest.append(self.tell())
                return piece

        monkeypatch.setattr(archives, "BoundedGzip", Watched)
        member = tarfile.TarInfo("zeros.jpg")
        member.size = UNPACKED
        path = self.packed_tar(tmp_path / "a.tar.gz", member, b"\0" * MEGABYTE)
        with little_memory(), pytest.raises(DataError, match="unpacks to more than 200 times its size"):
            unpacked(path)
        assert max(farthest) < MEGABYTE
        assert list(cache.iterdir()) == []

    def test_a_header_of_a_tar_is_not_read_into_memory(self, tmp_path, cache):
        member = tarfile.TarInfo("long")
        member.type, member.size = tarfile.GNUTYPE_LONGNAME, UNPACKED
        path = self.packed_tar(tmp_path / "a.tar.gz", member, b"a" * MEGABYTE)
        with little_memory(), pytest.raises(DataError, match="should be a short header; refused"):
            unpacked(path)
        assert list(cache.iterdir()) == []

    def test_a_zip(self, tmp_path, cache):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("zeros.jpg", b"\0" * 20 * MEGABYTE)
        with pytest.raises(DataError, match="unpacks to more than 200 times its size"):
            unpacked(tmp_path / "a.zip")
        assert list(cache.iterdir()) == []
