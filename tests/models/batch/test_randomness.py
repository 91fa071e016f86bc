"""Random numbers by counting: good enough as numbers, and a function of key and place alone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rationales.models.batch.rows import content_key, fold, mix, normal, uniform

INT64 = st.integers(-(2**63), 2**63 - 1)
MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def keys(*values):
    return torch.tensor(values, dtype=torch.int64)


def signed(value):
    value &= MASK
    return value - 2**64 if value >= 2**63 else value


def splitmix(value):
    """The finaliser of splitmix64, on Python's unbounded integers."""
    value &= MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def unmix(value):
    """The inverse of `splitmix`."""

    def unshift(value, bits):
        result = value
        for _ in range(64 // bits + 1):
            result = value ^ (result >> bits)
        return result

    value = unshift(value & MASK, 31)
    value = unshift((value * pow(0x94D049BB133111EB, -1, 2**64)) & MASK, 27)
    return unshift((value * pow(0xBF58476D1CE4E5B9, -1, 2**64)) & MASK, 30)


class TestBits:
    @given(st.lists(INT64, min_size=1))
    def test_mix_is_splitmix64(self, values):
        assert mix(keys(*values)).tolist() == [signed(splitmix(value)) for value in values]

    @given(INT64)
    def test_mix_leaves_its_argument_alone(self, value):
        given_key = keys(value)
        mix(given_key)
        assert given_key.tolist() == [value]

    @pytest.mark.parametrize("bits", [0, MASK, 1, 2**63, MASK - 1])
    def test_uniform_never_reaches_its_ends(self, bits):
        """Even for the key that makes all 64 bits 1, found by running the mixing backwards."""
        key = signed(unmix(bits) - GOLDEN)
        assert splitmix(key + GOLDEN) == bits
        value = float(uniform(keys(key), 1))
        assert 0 < value < 1
        assert value == pytest.approx(bits / 2**64, abs=2**-50)


class TestDistribution:
    """Bounds are five standard errors of the estimate, from the number of draws."""

    COUNT = 200_000

    def draws(self):
        together = uniform(keys(1), self.COUNT)[0]  # one key, many places
        apart = uniform(torch.arange(self.COUNT), 1)[:, 0]  # many neighbouring keys, one place
        return together, apart

    def test_uniform_is_uniform(self):
        for sample in self.draws():
            assert abs(sample.mean() - 1 / 2) < 5 * (1 / 12 / self.COUNT) ** 0.5
            assert abs(sample.var() - 1 / 12) < 5 * (1 / 180 / self.COUNT) ** 0.5
            count = torch.histc(sample, bins=100, min=0, max=1)
            expected = self.COUNT / 100
            chi = ((count - expected) ** 2 / expected).sum()  # 99 degrees of freedom: mean 99, variance 198
            assert abs(chi - 99) < 5 * 198**0.5

    def test_neighbours_are_independent(self):
        for sample in self.draws():
            centred = (sample - 0.5) * 12**0.5
            for lag in (1, 2, 4, 64):
                assert abs((centred[lag:] * centred[:-lag]).mean()) < 5 / self.COUNT**0.5

    def test_keys_are_independent_of_each_other(self):
        sample = (uniform(fold(torch.arange(300), 7), 500) - 0.5) * 12**0.5
        correlation = sample @ sample.T / 500
        off = correlation[~torch.eye(300, dtype=torch.bool)]
        assert off.abs().max() < 6.5 / 500**0.5  # the largest of 44,850

    @pytest.mark.parametrize("last", [1, 3, 4, 384])
    def test_normal_is_normal(self, last):
        rows = 400_000 // last
        sample = normal(keys(5), (rows, last), torch.float64)[0].flatten()
        count = len(sample)
        assert abs(sample.mean()) < 5 / count**0.5
        assert abs(sample.var() - 1) < 5 * (2 / count) ** 0.5
        assert abs((sample**3).mean()) < 5 * (15 / count) ** 0.5
        assert abs((sample**4).mean() - 3) < 5 * (96 / count) ** 0.5
        for bound in (-2.0, -1.0, 0.0, 0.5, 1.5):
            share = 0.5 * (1 + torch.erf(torch.tensor(bound / 2**0.5)))
            assert abs((sample < bound).double().mean() - share) < 5 * (0.25 / count) ** 0.5 + 2**-15

    def test_the_four_numbers_of_one_draw_are_independent(self):
        sample = normal(keys(9), (100_000, 4), torch.float64)[0]
        correlation = sample.T @ sample / 100_000
        assert (correlation - torch.eye(4)).abs().max() < 5 * (2 / 100_000) ** 0.5
        squares = sample.square() - 1
        correlation = squares.T @ squares / 200_000
        assert (correlation - torch.eye(4)).abs().max() < 5 * (14 / 100_000) ** 0.5


class TestCompany:
    @given(st.lists(INT64, min_size=1, max_size=5), st.integers(1, 40), st.integers(0, 40))
    def test_padding_on_the_right_changes_nothing(self, values, count, padding):
        assert torch.equal(uniform(keys(*values), count + padding)[:, :count], uniform(keys(*values), count))
        longer = normal(keys(*values), (count + padding, 6), torch.float32)
        assert torch.equal(longer[:, :count], normal(keys(*values), (count, 6), torch.float32))

    @given(st.lists(INT64, min_size=1, max_size=6))
    def test_a_row_draws_the_same_alone_and_in_a_batch(self, values):
        together = normal(keys(*values), (3, 5), torch.float32)
        for number, value in enumerate(values):
            assert torch.equal(normal(keys(value), (3, 5), torch.float32)[0], together[number])
            assert torch.equal(uniform(keys(value), 9)[0], uniform(keys(*values), 9)[number])

    @given(INT64, INT64)
    def test_different_keys_differ(self, first, second):
        if first != second:
            assert not torch.equal(uniform(keys(first), 4), uniform(keys(second), 4))

    def test_nothing_global_is_touched(self):
        before = torch.random.get_rng_state()
        uniform(keys(1), 10)
        normal(keys(1), (4, 4), torch.float32)
        assert torch.equal(torch.random.get_rng_state(), before)


class TestFold:
    @given(st.lists(INT64, min_size=1, max_size=5), st.integers(0, 10**6), st.integers(0, 10**6))
    def test_numbers_are_one_for_all_or_one_for_each(self, values, first, second):
        count = len(values)
        wide = fold(keys(*values), torch.full((count,), first), torch.full((count,), second))
        assert torch.equal(wide, fold(keys(*values), first, second))
        assert torch.equal(wide, fold(fold(keys(*values), first), second))

    @given(INT64, st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), min_size=2, unique=True))
    def test_every_purpose_and_step_has_its_own_key(self, value, numbers):
        """Order counts, too: (purpose 1, step 2) is not (purpose 2, step 1)."""
        keys_of_steps = {int(fold(keys(value), *pair)) for pair in numbers}
        assert len(keys_of_steps) == len(numbers)
        assert value not in keys_of_steps


class TestContentKey:
    CONTENT = st.tuples(st.integers(0, 9), st.text(), st.one_of(st.none(), st.text()), st.integers(0, 5))

    @given(st.lists(CONTENT, unique=True, min_size=2))
    def test_different_content_different_key(self, contents):
        assert len({content_key(*content) for content in contents}) == len(contents)

    def test_nothing_is_confused_with_its_name(self):
        cases = [
            (0, "a", None),
            (0, "a", "None"),
            (0, "a"),
            (0, "a', None"),
            (0, "a", "b"),
            (0, "a', 'b"),
            (1, "a", None),
        ]
        assert len({content_key(*case) for case in cases}) == len(cases)

    def test_half_a_character_has_a_key_too(self):
        assert content_key(0, "\ud800") != content_key(0, "\udfff")

    def test_the_same_in_every_process(self):
        code = "from rationales.models.batch.rows import content_key; print(content_key(3, 'a text', None, 7))"
        environment = os.environ | {"PYTHONHASHSEED": "1"}  # here it is drawn at random
        command = [sys.executable, "-c", code]
        there = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        assert int(there.stdout) == content_key(3, "a text", None, 7)
