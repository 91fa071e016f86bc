"""Scores kept by content: found again when nothing changed, made again when anything did."""

from __future__ import annotations

import errno
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from families import tiny

import rationales
from rationales.evaluation.scores.attribution import RawScores
from rationales.evaluation.scores.cache import Cache, entry_key, input_fingerprint, model_fingerprint, open_cache
from rationales.methods import build

KEY = "ab" + "0" * 38


def model(**options):
    return rationales.load(*tiny("bert", **options))


def encoded(of, text="The bread was bad."):
    return of.encode([of.read(text, None)])[0]


class TestEntries:
    def test_what_is_put_is_found_bit_by_bit(self, tmp_path):
        cache = open_cache(tmp_path / "deep" / "er")
        scores = np.random.default_rng(0).normal(size=7).astype(np.float32)
        assert cache.get(KEY, 7) is None
        cache.put(KEY, RawScores(scores, 1.5))
        entry = cache.get(KEY, 7)
        assert np.array_equal(entry.scores, scores)
        assert entry.seconds == 1.5
        assert open_cache(cache) is cache
        assert open_cache(None) is None

    def test_a_broken_entry_is_as_good_as_none(self, tmp_path):
        cache = Cache(tmp_path)
        cache.put(KEY, RawScores(np.ones(3, np.float32), 0.0))
        (path,) = tmp_path.rglob("*.safetensors")
        content = path.read_bytes()
        for broken in (b"", content[:20], content[:-4], b"\xff" * len(content), content[:8] + b"\xff" + content[9:]):
            path.write_bytes(broken)
            assert cache.get(KEY, 3) is None
        path.write_bytes(content)
        assert cache.get(KEY, 3) is not None
        assert cache.get(KEY, 4) is None  # another length
        another_key = KEY[:-1] + "1"
        path.rename(path.with_name(f"{another_key}.safetensors"))
        assert cache.get(another_key, 3) is None  # another entry's content

    def test_numbers_that_are_none_are_not_taken(self, tmp_path):
        cache = Cache(tmp_path)
        cache.put(KEY, RawScores(np.array([np.nan], np.float32), 0.0))
        assert cache.get(KEY, 1) is None

    def test_failures_are_not_kept_and_nothing_half_written_stays(self, tmp_path):
        cache = Cache(tmp_path)
        cache.put(KEY, RawScores(None, 0.1, "NaN"))
        assert list(tmp_path.rglob("*")) == []
        cache.put(KEY, RawScores(np.ones(3, np.float32), 0.0))
        assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".safetensors"]

    def test_a_folder_that_cannot_be_made_keeps_nothing_and_says_why(self, tmp_path):
        (tmp_path / "file").write_text("x")
        cache = open_cache(tmp_path / "file" / "scores")
        cache.put(KEY, RawScores(np.ones(3, np.float32), 0.0))
        assert cache.get(KEY, 3) is None
        assert cache.problem == f"{tmp_path / 'file' / 'scores'} cannot be made (Not a directory)"

    @pytest.mark.parametrize("call", ["mkdir", "mkstemp"])
    def test_a_folder_that_cannot_be_written_is_still_read(self, tmp_path, monkeypatch, call):
        """Neither a folder for an entry nor an entry can be written: tried once, then no more."""
        cache = Cache(tmp_path)
        cache.put(KEY, RawScores(np.ones(3, np.float32), 0.0))
        attempts = []

        def refuse(*_, **__):
            attempts.append(call)
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        monkeypatch.setattr(Path if call == "mkdir" else tempfile, call, refuse)
        for number in range(3):
            cache.put(f"cd{number:038}", RawScores(np.ones(3, np.float32), 0.0))
        assert attempts == [call]
        assert cache.problem == f"{tmp_path} cannot be written (Read-only file system)"
        assert cache.get(KEY, 3) is not None
        assert "Scores were not kept" in cache.remarks()[0]


class TestKeys:
    def test_the_same_things_have_the_same_key(self):
        assert model_fingerprint(model()) == model_fingerprint(model())
        assert input_fingerprint(encoded(model())) == input_fingerprint(encoded(model()))

    def test_whatever_changes_scores_changes_the_key(self):
        base = model()
        fingerprints = {
            model_fingerprint(base),
            model_fingerprint(model(seed=1)),
            model_fingerprint(replace(base, overlap=7)),
        }
        fingerprints.add(model_fingerprint(rationales.load(*tiny("bert"), baseline="mask")))
        fingerprints.add(model_fingerprint(rationales.load(*tiny("bert"), unit="token")))
        fingerprints.add(model_fingerprint(replace(base, labels=("a", "b", "c"))))
        nudged = model()
        with torch.no_grad():
            nudged.networks[0].module.classifier.bias[0] += 1e-7
        fingerprints.add(model_fingerprint(nudged))
        assert len(fingerprints) == 7
        texts = {
            input_fingerprint(encoded(base, text))
            for text in ("a soup", "a  soup", "A soup", ("a soup", "b"), ("a", "soup b"))
        }
        assert len(texts) == 5
        marc, quick = build("marc"), build("marc", {"steps": 3})
        keys = {
            entry_key("m", "i", marc, 0, 0),
            entry_key("m2", "i", marc, 0, 0),
            entry_key("m", "i2", marc, 0, 0),
            entry_key("m", "i", quick, 0, 0),
            entry_key("m", "i", build("occlusion"), 0, 0),
            entry_key("m", "i", marc, 1, 0),
            entry_key("m", "i", marc, 0, 1),
        }
        assert len(keys) == 7
