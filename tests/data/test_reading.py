"""Names, splits, folders, archives and downloads."""

from __future__ import annotations

import functools
import hashlib
import io
import tarfile
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rationales.data import DATASETS, archives, download, read_data
from rationales.data.archives import cache_folder, unpacked
from rationales.data.download import Source, fetch
from rationales.errors import DataError, OptionError

POSITIVE, NEGATIVE = b"a bright day .\n", b"a grey day .\n"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rationales" / "data"


def tar_of(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as bundle:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            bundle.addfile(entry, io.BytesIO(content))
    return path


def polarity(path, mode="w:gz"):
    return tar_of(path, {"x/rt-polarity.neg": NEGATIVE, "x/rt-polarity.pos": POSITIVE}, mode)


class TestNamesAndSplits:
    def test_the_list_says_what_there_is(self):
        for name, dataset in DATASETS.items():
            assert name == dataset.name == name.lower()
            assert dataset.summary
            assert dataset.default in dataset.splits
            assert set(dict(dataset.needs)) <= set(dataset.splits)
            for source in dataset.sources:
                assert source.address.startswith("https://")
                assert len(bytes.fromhex(source.sha256)) == 32
            assert all(dataset.sources_for(split) or not dataset.sources for split in dataset.splits)

    def test_a_training_split_needs_its_own_files_only(self):
        assert [source.file for source in DATASETS["e-snli-l2"].sources_for("train")] == [
            "esnli_train_1.csv",
            "esnli_train_2.csv",
        ]
        assert [source.file for source in DATASETS["e-snli-l2"].sources_for("dev")] == ["esnli_dev.csv"]

    def test_what_is_not_there_is_told(self, tmp_path):
        with pytest.raises(DataError, match=r"no data set and no file 'films'; data sets by name are: eraser-movies"):
            read_data("films")
        with pytest.raises(DataError, match="there is no folder or archive"):
            read_data("emotion", folder=tmp_path / "nowhere")
        with pytest.raises(DataError, match=r"there is no test.jsonl in"):
            read_data("eraser-movies", folder=tmp_path)

    def test_an_unknown_split_and_a_bad_limit(self, tmp_path):
        with pytest.raises(OptionError, match=r"emotion has no split 'extra'; its splits are: train, val, test"):
            read_data("emotion", "extra", tmp_path)
        with pytest.raises(OptionError, match="limit must be at least 1"):
            read_data("emotion", folder=tmp_path, limit=0)
        path = tmp_path / "mine.csv"
        path.write_text("text\nhello\n", encoding="utf-8")
        with pytest.raises(OptionError, match="without splits"):
            read_data(path, "test")
        with pytest.raises(OptionError, match="folder goes with the name"):
            read_data(path, folder=tmp_path)

    def test_a_path_that_says_nothing_of_its_form(self, tmp_path):
        (tmp_path / "notes.md").write_text("hello", encoding="utf-8")
        for path in (tmp_path / "notes.md", tmp_path):
            with pytest.raises(DataError, match=r"cannot tell what .* holds"):
                read_data(path)


class TestArchives:
    @pytest.mark.parametrize("where", ["archive", "folder with the archive", "folder"])
    def test_a_named_set_is_found_in_any_form(self, tmp_path, where):
        archive = polarity(tmp_path / "rt-polarity.tar.gz")
        path = {"archive": archive, "folder with the archive": tmp_path, "folder": unpacked(archive)}[where]
        assert [example.label for example in read_data("rotten-tomatoes", folder=path)] == ["negative", "positive"]

    def test_a_zip_and_a_plain_tar(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
            packed.writestr("rt-polarity.neg", NEGATIVE)
            packed.writestr("__MACOSX/rt-polarity.pos", b"\x00")
            packed.writestr("x/rt-polarity.pos", POSITIVE)
        assert len(read_data("rotten-tomatoes", folder=tmp_path / "a.zip")) == 2
        assert len(read_data("rotten-tomatoes", folder=polarity(tmp_path / "b.tar", "w"))) == 2

    def test_unpacked_once_and_anew_when_the_archive_changes(self, tmp_path, cache):
        archive = polarity(tmp_path / "a.tar.gz")
        first = unpacked(archive)
        assert first.parent == cache
        (first / "x" / "seen").touch()
        assert (unpacked(archive) / "x" / "seen").exists()
        tar_of(archive, {"rt-polarity.neg": b"other\n"})
        assert unpacked(archive) != first
        assert not [path for path in cache.iterdir() if path.name.startswith(".")]

    @pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil.txt", "a/../../evil.txt"])
    def test_nothing_is_written_outside_of_the_folder(self, tmp_path, cache, name):
        bad = tar_of(tmp_path / "bad.tar.gz", {"fine.txt": b"x", name: b"x"})
        if name.startswith("/"):  # the filter of tarfile makes an absolute name a relative one
            assert (unpacked(bad) / "etc" / "evil.txt").is_file()
        else:
            with pytest.raises(DataError, match="is not safe to unpack"):
                unpacked(bad)
            assert list(cache.iterdir()) == []
        with zipfile.ZipFile(tmp_path / "bad.zip", "w") as packed:
            packed.writestr(name, b"x")
        with pytest.raises(DataError, match="points out of its folder"):
            unpacked(tmp_path / "bad.zip")

    def test_a_link_that_points_away_is_refused(self, tmp_path):
        with tarfile.open(tmp_path / "bad.tar", "w") as bundle:
            entry = tarfile.TarInfo("link")
            entry.type, entry.linkname = tarfile.SYMTYPE, "../../.."
            bundle.addfile(entry)
        with pytest.raises(DataError, match="is not safe to unpack"):
            unpacked(tmp_path / "bad.tar")

    def test_an_incomplete_or_wrong_archive(self, tmp_path, cache):
        complete = polarity(tmp_path / "a.tar.gz").read_bytes()
        for raw in (complete[:-30], b"hello", b""):
            (tmp_path / "b.tar.gz").write_bytes(raw)
            with pytest.raises(DataError, match=r"b.tar.gz cannot be unpacked .* get it again"):
                unpacked(tmp_path / "b.tar.gz")
        assert list(cache.iterdir()) == []

    def test_an_archive_that_would_fill_the_disk(self, tmp_path, monkeypatch):
        monkeypatch.setattr(archives, "MAX_UNPACKED", 10)
        with pytest.raises(DataError, match="would unpack to"):
            unpacked(polarity(tmp_path / "a.tar.gz"))

    def test_a_cache_that_cannot_be_made(self, tmp_path, monkeypatch):
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        with pytest.raises(DataError, match="set XDG_CACHE_HOME"):
            unpacked(polarity(tmp_path / "a.tar.gz"))

    def test_a_relative_cache_is_passed_over_as_the_standard_says(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", "here")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert cache_folder() == tmp_path / ".cache" / "rationales" / "data"


@contextmanager
def served(folder):
    """The files of a folder under an address of this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class TestDownload:
    @pytest.fixture
    def source(self, tmp_path, monkeypatch):
        """Rotten Tomatoes with an address on this machine."""
        (tmp_path / "www").mkdir()
        archive = polarity(tmp_path / "www" / "rt-polaritydata.tar.gz")
        raw = archive.read_bytes()
        with served(tmp_path / "www") as address:
            source = Source(f"{address}/{archive.name}", len(raw), hashlib.sha256(raw).hexdigest())
            monkeypatch.setitem(DATASETS, "rotten-tomatoes", replace(DATASETS["rotten-tomatoes"], sources=(source,)))
            yield source

    def test_got_checked_unpacked_and_kept(self, source, cache, tmp_path):
        reported = []
        assert len(read_data("rotten-tomatoes", progress=lambda done, total: reported.append((done, total)))) == 2
        assert reported[-1] == (source.size, source.size)
        (tmp_path / "www" / source.file).unlink()  # a second time nothing is asked for
        assert len(read_data("rotten-tomatoes")) == 2
        assert (cache / "rotten-tomatoes" / source.file).is_file()

    def test_with_a_folder_nothing_is_downloaded(self, source, cache, tmp_path):
        with pytest.raises(DataError, match=r"there is no rt-polarity.neg in"):
            read_data("rotten-tomatoes", folder=tmp_path)
        assert not cache.exists()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"sha256": "0" * 64}, "is not what is expected: its SHA-256 is .* nothing was kept"),
            ({"size": 10}, "sends more than the 10 bytes"),
            ({"address": "http://127.0.0.1:9/none.tar.gz"}, "cannot reach"),
        ],
    )
    def test_what_is_wrong_leaves_nothing_behind(self, source, cache, monkeypatch, change, message):
        monkeypatch.setattr(download, "TIMEOUT", 2.0)
        monkeypatch.setitem(
            DATASETS,
            "rotten-tomatoes",
            replace(DATASETS["rotten-tomatoes"], sources=(replace(source, **change),)),
        )
        with pytest.raises(DataError, match=f"could not be downloaded: .*{message}.* Give the folder it lies in"):
            read_data("rotten-tomatoes")
        assert list((cache / "rotten-tomatoes").iterdir()) == []

    def test_an_answer_that_says_no(self, source, tmp_path):
        with pytest.raises(DataError, match="answers 404"):
            fetch(replace(source, address=source.address + ".none"), tmp_path / "to")

    def test_a_file_of_the_same_name_is_not_trusted(self, source, cache):
        (cache / "rotten-tomatoes").mkdir(parents=True)
        (cache / "rotten-tomatoes" / source.file).write_bytes(b"other")
        with pytest.raises(DataError, match="its checksum is another"):
            read_data("rotten-tomatoes")

    def test_without_an_address_the_place_for_it_is_told(self, cache):
        with pytest.raises(DataError, match=r"no address to download it from .* put emotion.tar.gz or .* into"):
            read_data("emotion")
        (cache / "emotion").mkdir(parents=True)
        tar_of(cache / "emotion" / "emotion.tar.gz", {"test.txt": b"i hum;joy\n"})
        assert read_data("emotion")[0].label == "joy"
