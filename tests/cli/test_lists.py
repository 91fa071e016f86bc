"""`rationales methods`: what there is, and other names of it."""

from __future__ import annotations

import pytest
from commands import run

from rationales.methods import ALIASES, METHODS, build, describe


@pytest.mark.parametrize(("alias", "name"), [("attention", "raw-attention"), ("rollout", "attention-rollout")])
class TestAliases:
    def test_an_alias_builds_the_method(self, alias, name):
        assert build(alias) == build(name)
        assert alias not in METHODS
        assert describe(METHODS[name]).aliases == (alias,)

    def test_the_list_names_it_beside_the_method(self, alias, name):
        (line,) = [line for line in run("methods").stdout.splitlines() if line.startswith(f"{name} ")]
        assert f"(also called {alias})" in line
        assert run("methods", alias).stdout == run("methods", name).stdout


def test_no_alias_hides_a_method():
    assert not set(ALIASES) & set(METHODS)
    assert set(ALIASES.values()) <= set(METHODS)
