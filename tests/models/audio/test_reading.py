"""Sounds are read from files and arrays, and what cannot be read is told."""

from __future__ import annotations

import struct
import sys
import wave

import numpy as np
import pytest
import torch

from rationales.errors import InputError, ModelError
from rationales.models.audio.reading import read_sound, resample

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("soxr")

RATE = 8000


def write(path, samples, width=2, rate=RATE):
    """Samples (n,) or (n, channels) in [-1, 1) as PCM of so many bytes."""
    samples = np.atleast_2d(np.asarray(samples, dtype=np.float64).T).T
    with wave.open(str(path), "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        if width == 1:
            raw = np.rint(samples * 128 + 128).clip(0, 255).astype(np.uint8).tobytes()
        else:
            integers = np.rint(samples * 2 ** (8 * width - 1)).clip(-(2 ** (8 * width - 1)), 2 ** (8 * width - 1) - 1)
            raw = b"".join(struct.pack("<i", int(value))[:width] for value in integers.flatten())
        file.writeframes(raw)
    return path


@pytest.fixture
def tone():
    return 0.7 * np.sin(2 * np.pi * 440 * np.arange(1600) / RATE)


class TestFiles:
    @pytest.mark.parametrize("width", [1, 2, 3, 4])
    def test_every_width_comes_back_as_precisely_as_it_can(self, tmp_path, tone, width):
        sound = read_sound(write(tmp_path / "tone.wav", tone, width))
        assert (sound.sample_rate, sound.channels, sound.seconds) == (RATE, 1, 0.2)
        step = max(2.0 ** (1 - 8 * width), 2**-24)
        assert np.abs(sound.samples - tone).max() <= step
        assert not sound.samples.flags.writeable

    def test_extremes_of_every_width(self, tmp_path):
        for width in (1, 2, 3, 4):
            sound = read_sound(write(tmp_path / "edge.wav", [-1.0, 0.0], width))
            assert sound.samples.tolist() == [-1.0, 0.0]

    def test_channels_are_averaged(self, tmp_path, tone):
        sound = read_sound(write(tmp_path / "two.wav", np.stack([tone, -tone / 2], 1)))
        assert sound.channels == 2
        assert np.allclose(sound.samples, tone / 4, atol=1e-4)

    def test_a_truncated_file(self, tmp_path, tone):
        path = write(tmp_path / "tone.wav", tone)
        path.write_bytes(path.read_bytes()[:-700])
        with pytest.raises(InputError, match=r"is truncated: 2,500 of 3,200 bytes"):
            read_sound(path)

    def test_a_stream_that_did_not_know_its_length(self, tmp_path, tone):
        """What ffmpeg writes into a pipe has the largest possible length in its header."""
        path = write(tmp_path / "tone.wav", tone)
        raw = bytearray(path.read_bytes())
        raw[4:8] = raw[40:44] = b"\xff\xff\xff\xff"
        path.write_bytes(raw)
        assert len(read_sound(path).samples) == 1600

    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            (b"ID3\x04" + b"\x00" * 40, "no sound file that can be read"),
            (b"fLaC" + b"\x00" * 40, "no sound file that can be read"),
            (b"\x00\x00\x00\x20ftypM4A " + b"\x00" * 40, "no sound file that can be read"),
            (b"", "Format not recognised"),
            (b"hello, this is a text and not a sound", "Format not recognised"),
            (b"RIFF\x24\x00\x00\x00WAVEfmt ", "No 'data' chunk"),
        ],
    )
    def test_another_kind_of_file_is_told_with_what_to_do(self, tmp_path, raw, message):
        (tmp_path / "sound").write_bytes(raw)
        with pytest.raises(InputError, match=message) as error:
            read_sound(tmp_path / "sound")
        assert str(error.value).endswith("convert it first (ffmpeg -i IN -ac 1 -c:a pcm_s16le OUT.wav)")

    @pytest.mark.parametrize(("suffix", "subtype"), [("flac", "PCM_16"), ("aiff", "PCM_16"), ("wav", "FLOAT")])
    def test_lossless_formats_have_the_same_samples(self, tmp_path, tone, suffix, subtype):
        quantised = np.rint(tone * 2**15) / 2**15
        soundfile.write(tmp_path / f"tone.{suffix}", quantised, RATE, subtype=subtype)
        sound = read_sound(tmp_path / f"tone.{suffix}")
        assert np.array_equal(sound.samples, quantised.astype(np.float32))
        assert sound.sample_rate == RATE

    def test_sixteen_bits_are_integers_divided_by_32768(self, tmp_path):
        integers = np.random.default_rng(0).integers(-(2**15), 2**15, 1000)
        path = write(tmp_path / "noise.wav", integers / 2**15)
        assert np.array_equal(read_sound(path).samples * 2**15, integers)

    def test_hours_and_hours_are_refused_before_they_are_decoded(self, tmp_path):
        """By the header of a FLAC file that claims five hours and holds a second."""
        soundfile.write(tmp_path / "long.flac", np.zeros(RATE), RATE)
        raw = bytearray((tmp_path / "long.flac").read_bytes())
        raw[22:26] = (5 * 3600 * RATE).to_bytes(4, "big")  # the low bytes of the number of samples in STREAMINFO
        (tmp_path / "long.flac").write_bytes(raw)
        with pytest.raises(InputError, match="longer than 4 hours"):
            read_sound(tmp_path / "long.flac")

    def test_without_the_library_it_says_what_to_install(self, tmp_path, tone, monkeypatch):
        monkeypatch.setitem(sys.modules, "soundfile", None)
        with pytest.raises(ModelError, match=r"needs soundfile.*rationales\[audio\]"):
            read_sound(write(tmp_path / "tone.wav", tone))

    def test_what_is_not_there_or_empty(self, tmp_path):
        with pytest.raises(InputError, match="there is no file"):
            read_sound(tmp_path / "none.wav")
        with pytest.raises(InputError, match="is a folder"):
            read_sound(tmp_path)
        with pytest.raises(InputError, match="is empty: it holds no samples"):
            read_sound(write(tmp_path / "empty.wav", np.zeros(0)))


class TestArrays:
    def test_integers_are_scaled_and_floats_taken_as_they_are(self):
        expected = [-1.0, 0.0, 0.5]
        for samples in (
            np.array(expected),
            np.array([-32768, 0, 16384], dtype=np.int16),
            np.array([-(2**31), 0, 2**30], dtype=np.int32),
            np.array([0, 128, 192], dtype=np.uint8),
            torch.tensor(expected),
        ):
            assert read_sound((samples, RATE)).samples.tolist() == expected

    def test_channels_first_or_last(self):
        samples = np.zeros((100, 2), dtype=np.float32)
        samples[:, 0] = 0.5
        for array in (samples, samples.T):
            assert np.array_equal(read_sound((array, RATE)).samples, np.full(100, 0.25, np.float32))

    @pytest.mark.parametrize(
        ("raw_input", "message"),
        [
            ((np.array([0.0, np.nan]), RATE), "the clip holds NaN or infinite samples"),
            ((np.array([]), RATE), "the clip is empty"),
            ((np.array([0.0, 3000.0]), RATE), r"the clip reaches 3000; give samples in \[-1, 1\]"),
            ((np.zeros((2, 2, 2)), RATE), "the clip has the shape"),
            ((np.array(["a"]), RATE), "the clip has the shape"),
            ((np.zeros(10), 16.5), "the sample rate of the clip is 16.5"),
            ((np.zeros(10), 0), "the sample rate of the clip is 0"),
            ((np.zeros(10), True), "the sample rate of the clip is True"),
            (np.zeros(10), "not ndarray"),
            (3, "not int"),
        ],
    )
    def test_what_is_no_sound_is_told(self, raw_input, message):
        with pytest.raises(InputError, match=message):
            read_sound(raw_input, "the clip")

    def test_hours_and_hours_are_refused(self):
        with pytest.raises(InputError, match="longer than 4 hours"):
            read_sound((np.zeros(1000 * 3600 * 4 + 1, dtype=np.int8), 1000))


class TestRates:
    @pytest.mark.parametrize(("old_rate", "new_rate"), [(44100, 16000), (8000, 16000), (48000, 16000), (22050, 16000)])
    def test_a_tone_stays_the_same_tone(self, old_rate, new_rate):
        def tone(at):
            return np.sin(2 * np.pi * 440 * np.arange(at // 2) / at)

        resampled = resample(tone(old_rate).astype(np.float32), old_rate, new_rate)
        assert len(resampled) == new_rate // 2
        assert np.abs(resampled - tone(new_rate))[200:-200].max() < 2e-3

    def test_what_the_new_rate_cannot_hold_is_gone(self):
        high = np.sin(2 * np.pi * 6000 * np.arange(16000) / 16000).astype(np.float32)
        assert np.abs(resample(high, 16000, 8000)[100:-100]).max() < 1e-3

    def test_the_same_rate_changes_nothing(self):
        samples = np.ones(5, dtype=np.float32)
        assert resample(samples, 8000, 8000) is samples
