"""Files are written whole or not at all, and read as UTF-8 or not at all."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rationales.errors import InputError
from rationales.files import read_text, write_bytes, write_text


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    content = "naïve\r\nline two\u2028 😀"
    assert read_text(write_text(tmp_path / "a.txt", content)) == content


@given(st.text())
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, content: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    if "\x00" not in content:
        assert read_text(write_text(path, content)) == content


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()], ids=["error", "ctrl-c"])
@pytest.mark.parametrize("moment", ["write", "replace"])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, moment: str
) -> None:
    path = write_text(tmp_path / "a.txt", "old")

    def fail(*_: object) -> None:
        raise failure

    if moment == "replace":
        monkeypatch.setattr(os, "replace", fail)
    else:
        real = os.fdopen

        def half(*args: object, **options: object) -> io.BufferedWriter:
            file = real(*args, **options)  # type: ignore[call-overload]  # passed on as it came
            file.write(b"ha")
            fail()
            return file

        monkeypatch.setattr(os, "fdopen", half)
    with pytest.raises((type(failure), InputError)):
        write_text(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_the_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    written = write_bytes(tmp_path / "written", b"x")
    assert stat.S_IMODE(written.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere does not exist"):
        write_text(tmp_path / "nowhere" / "a.txt", "x")


def test_a_folder_cannot_be_written_or_read_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        write_text(tmp_path, "x")
    with pytest.raises(InputError, match=str(tmp_path)):
        read_text(tmp_path)


def test_a_file_that_is_not_utf8_is_refused_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("caf\u00e9".encode("latin-1"))
    with pytest.raises(InputError, match=r"not UTF-8 \(byte 3 is 0xe9\)"):
        read_text(path)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    with pytest.raises(InputError, match="binary"):
        read_text(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file .*none\.txt"):
        read_text(tmp_path / "none.txt")
