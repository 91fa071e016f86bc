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
from rationales.evaluation.attribution import Scored
from rationales.evaluation.cache import Cache, cache_of, code_print, entry_key, input_print, model_print
from rationales.methods import METHODS, build

KEY = "ab" + "0" * 38


def model(**more):
    return rationales.load(*tiny("bert", **more))


def encoded(of, text="The bread was bad."):
    return of.encode([of.read(text, None)])[0]


class TestEntries:
    def test_what_is_put_is_found_bit_by_bit(self, tmp_path):
        cache = cache_of(tmp_path / "deep" / "er")
        scores = np.random.default_rng(0).normal(size=7).astype(np.float32)
        assert cache.get(KEY, 7) is None
        cache.put(KEY, Scored(scores, 1.5))
        found = cache.get(KEY, 7)
        assert np.array_equal(found.scores, scores)
        assert found.seconds == 1.5
        assert cache_of(cache) is cache
        assert cache_of(None) is None

    def test_a_broken_entry_is_as_good_as_none(self, tmp_path):
        cache = Cache(tmp_path)
        cache.put(KEY, Scored(np.ones(3, np.float32), 0.0))
        (path,) = tmp_path.rglob("*.safetensors")
        whole = path.read_bytes()
        for broken in (b"", whole[:20], whole[:-4], b"\xff" * len(whole), whole[:8] + b"\xff" + whole[9:]):
            path.write_bytes(broken)
            assert cache.get(KEY, 3) is None
        path.write_bytes(whole)
        assert cache.get(KEY, 3) is not None
        assert cache.get(KEY, 4) is None  # another length
        other = KEY[:-1] + "1"
        path.rename(path.with_name(f"{other}.safetensors"))
        assert cache.get(other, 3) is None  # another entry's content

    def test_numbers_that_are_none_are_not_taken(self, tmp_path):
        cache = Cache(tmp_path)
        cache.put(KEY, Scored(np.array([np.nan], np.float32), 0.0))
        assert cache.get(KEY, 1) is None

    def test_failures_are_not_kept_and_nothing_half_written_stays(self, tmp_path):
        cache = Cache(tmp_path)
        cache.put(KEY, Scored(None, 0.1, "NaN"))
        assert list(tmp_path.rglob("*")) == []
        cache.put(KEY, Scored(np.ones(3, np.float32), 0.0))
        assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".safetensors"]

    def test_a_folder_that_cannot_be_made_keeps_nothing_and_says_why(self, tmp_path):
        (tmp_path / "file").write_text("x")
        cache = cache_of(tmp_path / "file" / "scores")
        cache.put(KEY, Scored(np.ones(3, np.float32), 0.0))
        assert cache.get(KEY, 3) is None
        assert cache.problem == f"{tmp_path / 'file' / 'scores'} cannot be made (Not a directory)"

    @pytest.mark.parametrize("call", ["mkdir", "mkstemp"])
    def test_a_folder_that_cannot_be_written_is_still_read(self, tmp_path, monkeypatch, call):
        """Neither a folder for an entry nor an entry can be written: tried once, then no more."""
        cache = Cache(tmp_path)
        cache.put(KEY, Scored(np.ones(3, np.float32), 0.0))
        attempts = []

        def refuse(*_, **__):
            attempts.append(call)
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        monkeypatch.setattr(Path if call == "mkdir" else tempfile, call, refuse)
        for number in range(3):
            cache.put(f"cd{number:038}", Scored(np.ones(3, np.float32), 0.0))
        assert attempts == [call]
        assert cache.problem == f"{tmp_path} cannot be written (Read-only file system)"
        assert cache.get(KEY, 3) is not None
        assert "Scores were not kept" in cache.remarks()[0]


class TestKeys:
    def test_the_same_things_have_the_same_key(self):
        assert model_print(model()) == model_print(model())
        assert input_print(encoded(model())) == input_print(encoded(model()))

    def test_whatever_changes_scores_changes_the_key(self):
        one = model()
        prints = {model_print(one), model_print(model(seed=1)), model_print(replace(one, overlap=7))}
        prints.add(model_print(rationales.load(*tiny("bert"), baseline="mask")))
        prints.add(model_print(rationales.load(*tiny("bert"), unit="token")))
        prints.add(model_print(replace(one, labels=("a", "b", "c"))))
        nudged = model()
        with torch.no_grad():
            nudged.networks[0].module.classifier.bias[0] += 1e-7
        prints.add(model_print(nudged))
        assert len(prints) == 7
        texts = {
            input_print(encoded(one, text))
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

    def test_every_method_has_code_of_its_own(self):
        prints = {code_print(method) for method in METHODS.values()}
        assert len(prints) == len(METHODS)
