"""What visitors send is decoded within the limits, and refused with a reason otherwise."""

from __future__ import annotations

import base64
import io
import struct
import wave
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from web_samples import LIMITS, data_url, png, scene

from rationales.app.limits import Limits, check_text
from rationales.app.tables import read_table
from rationales.app.uploads import decode_upload, file_name, read_upload_image, read_upload_sound
from rationales.errors import InputError, OptionError, RationalesError


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few kilobytes that claims to have this size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


@given(st.binary(min_size=1, max_size=300), st.text(max_size=120))
def test_any_bytes_and_any_name_are_read_back(content, name):
    from urllib.parse import quote

    url = f"data:application/octet-stream;name={quote(name, safe='', errors='replace')};base64,"
    upload = decode_upload(url + base64.b64encode(content).decode(), 1000, "the file")
    assert upload.content == content
    assert not set(upload.name) & set("/\\\x00\n")


@pytest.mark.parametrize(
    ("name", "displayed"),
    [("../../etc/passwd", "passwd"), ("C:\\secret\\a.png", "a.png"), ("a\x00b\n.png", "ab.png"), ("/", "")],
)
def test_a_name_loses_its_folders_and_control_characters(name, displayed):
    assert file_name(name) == displayed


@pytest.mark.parametrize("value", ["", "data:image/png,plain", "not base64!", "data:image/png;base64,", "/etc/passwd"])
def test_what_is_no_upload_is_refused(value):
    with pytest.raises(InputError):
        decode_upload(value, 1000, "the image")


def test_an_upload_above_the_limit_is_refused_before_it_is_decoded():
    with pytest.raises(InputError, match=r"larger than 0\.001 MB"):
        decode_upload("A" * 10_000, 1000, "the image")


def test_an_image_is_read_and_reduced():
    image = read_upload_image(decode_upload(data_url(png(scene((300, 3000)))), 200_000, "the image"), LIMITS)
    assert image.size == (102, 1024)
    assert image.name == "scene.png"


@pytest.mark.parametrize("size", [(20_000, 20_000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)])
def test_a_decompression_bomb_is_refused(size):
    upload = decode_upload(data_url(bomb(*size)), 200_000, "the image")
    with pytest.raises(InputError, match=r"pixels|no image"):
        read_upload_image(upload, LIMITS)


@pytest.mark.parametrize("content", [b"<svg onload=alert(1)>", b"%!PS-Adobe-3.0 EPSF-3.0", bomb(100, 100), b"GIF89a"])
def test_what_is_no_image_or_is_cut_off_is_refused(content):
    with pytest.raises(InputError):
        read_upload_image(decode_upload(data_url(content), 200_000, "the image"), LIMITS)


def sound(seconds: float) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.zeros(int(8000 * seconds), dtype="<i2").tobytes())
    return buffer.getvalue()


def test_a_sound_is_read_up_to_the_limit():
    pytest.importorskip("soundfile")
    limits = Limits(sound_seconds=1.0)
    samples, rate = read_upload_sound(decode_upload(data_url(sound(0.5), "a.wav", "audio/wav"), 10**6, "it"), limits)
    assert (samples.shape, rate) == ((4000, 1), 8000)
    for content in (sound(1.5), sound(0), b"RIFF but not a sound"):
        with pytest.raises(InputError):
            read_upload_sound(decode_upload(data_url(content, "a.wav", "audio/wav"), 10**6, "it"), limits)


def table(content: str) -> str:
    return data_url(content.encode(), "reviews.csv", "text/csv")


def test_the_column_of_a_table_is_found():
    assert read_table(table("text,id\ngood,1\nbad,2\n"), "", LIMITS) == (["good", "bad"], ["row 1", "row 2"])
    assert read_table(table("review\ngood\n"), "", LIMITS)[0] == ["good"]
    assert read_table(table("a,b\nx,y\n"), "b", LIMITS)[0] == ["y"]


@pytest.mark.parametrize(
    ("content", "column", "reason"),
    [
        ("a,b\nx,y\n", "", "which column"),
        ("a,b\nx,y\n", "c", "no column 'c'"),
        ("text\n", "", "no rows"),
        ("text\n" + "a\n" * 6, "", "more than 5 rows"),
        ('text\n"a\n', "", "unexpected end"),
        ("text,b\nx\n", "", "columns"),
        ("text,b\n ,y\n", "", "empty"),
        (f"text\n{'a' * 5000}\n", "", "characters"),
    ],
)
def test_a_table_that_cannot_be_explained_is_refused(content, column, reason):
    with pytest.raises(RationalesError, match=reason):
        read_table(table(content), column, LIMITS)


def test_a_long_text_and_half_a_character_are_refused():
    assert check_text("fine", LIMITS) == "fine"
    for text in ("a" * 4001, "half \ud800"):
        with pytest.raises(InputError):
            check_text(text, LIMITS)


def test_a_limit_is_positive():
    with pytest.raises(OptionError, match="seconds"):
        Limits(seconds=0)
