"""The fingerprint of a method's code changes with whatever its scores depend on, and with nothing else."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import rationales
from rationales.evaluation.scores import code_fingerprint as module_under_test
from rationales.evaluation.scores.code_fingerprint import code_fingerprint, import_closure
from rationales.methods import METHODS
from rationales.methods.random import Random

FOLDERS = {"rationales": Path(rationales.__file__).parents[1]}
FILES = {
    "__init__.py": "",
    "method.py": '''"""A method."""
from __future__ import annotations
from typing import TYPE_CHECKING
from sample_package import passed_on
from sample_package.support.direct import value

if TYPE_CHECKING:
    from sample_package.only_types import Hint


def scores():
    """What it does."""
    from .support import lazy  # needed here alone

    return lazy.value + value + passed_on
''',
    "support/__init__.py": "",
    "support/direct.py": "value = 1\n",
    "support/lazy.py": "import importlib\nvalue = importlib.import_module('sample_package.support.deep.named').value\n",
    "support/deep/__init__.py": "",
    "support/deep/named.py": "import numpy\nvalue = 2\n",
    "origin.py": "passed_on = 3\n",
    "unrelated.py": "value = 4\n",
    "only_types.py": "Hint = int\n",
}
USED = ["method", "origin", "support.direct", "support.lazy", "support.deep.named"]


@pytest.fixture
def package(tmp_path):
    """A package whose method imports helpers from sub-folders: at the top, inside a function, and by a string."""
    folder = tmp_path / "sample_package"
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (folder / "__init__.py").write_text(
        "from sample_package.origin import passed_on\nimport sample_package.unrelated\n"
    )
    return folder


def forget_files():
    """Files are read once in a program; these tests change them."""
    for function in (module_under_test._parse, module_under_test._normalised, module_under_test._import_nodes):
        function.cache_clear()


def closure(package):
    forget_files()
    return import_closure(["sample_package.method"], {"sample_package": package.parent})


class TestClosure:
    def test_holds_what_is_imported_wherever_the_import_stands(self, package):
        sources, libraries = closure(package)
        assert sorted(sources) == sorted(f"sample_package.{name}" for name in USED)
        assert "numpy" in libraries

    @pytest.mark.parametrize("module", USED)
    def test_changes_with_every_module_that_is_used(self, package, module):
        before = closure(package)
        path = package / (module.replace(".", "/") + ".py")
        path.write_text(path.read_text() + "\nchanged = True\n")
        assert closure(package) != before

    @pytest.mark.parametrize("module", ["unrelated", "only_types"])
    def test_does_not_change_with_other_modules(self, package, module):
        before = closure(package)
        (package / f"{module}.py").write_text("changed = True\n")
        assert closure(package) == before

    def test_comments_docstrings_and_layout_change_nothing(self, package):
        before = closure(package)
        path = package / "method.py"
        text = path.read_text().replace('"""What it does."""', '"""Something else."""  # a comment')
        path.write_text(text.replace("lazy.value + value", "lazy.value  +  value") + "\n\n# the end\n")
        assert closure(package) == before
        (package / "support" / "direct.py").write_text('"""The value."""\n\nvalue = 1  # one\n')
        assert closure(package) == before


class TestMethods:
    def test_every_method_has_code_of_its_own(self):
        fingerprints = {code_fingerprint(method) for method in METHODS.values()}
        assert len(fingerprints) == len(METHODS)

    @pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
    def test_a_method_depends_on_its_own_module_and_on_no_other_method(self, method):
        sources, libraries = import_closure([method.__module__], FOLDERS)
        registered = {cls.__module__ for cls in METHODS.values()}
        ancestors = {cls.__module__ for cls in method.__mro__}
        assert method.__module__ in sources
        assert "torch" in libraries
        assert "rationales.methods" not in sources
        if method.name != "marc-instant":  # which shares the rules and the result of marc
            assert registered & set(sources) <= ancestors

    def test_the_version_of_a_method_is_part_of_it(self):
        @dataclass(frozen=True)
        class Newer(Random):
            version: ClassVar[int] = 2

        @dataclass(frozen=True)
        class Newest(Random):
            version: ClassVar[int] = 3

        Newest.__module__ = Newer.__module__ = Random.__module__
        assert len({code_fingerprint(Random), code_fingerprint(Newer), code_fingerprint(Newest)}) == 3

    def test_the_code_of_a_users_own_method_counts(self, tmp_path, monkeypatch):
        """A class of the same name, from a file beside which a helper lies."""
        monkeypatch.syspath_prepend(tmp_path)
        folder = tmp_path / "own_package"
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / "helper.py").write_text("SCALE = 1\n")
        (folder / "method.py").write_text(
            "from rationales.methods.random import Random\n\n\nclass Own(Random):\n"
            "    def scores(self, *arguments):\n        from own_package.helper import SCALE\n        return SCALE\n"
        )
        fingerprints = set()
        for scale in (1, 1, 2):
            (folder / "helper.py").write_text(f"SCALE = {scale}  # scale\n")
            forget_files()
            monkeypatch.delitem(sys.modules, "own_package.method", raising=False)
            fingerprints.add(code_fingerprint(importlib.import_module("own_package.method").Own))
        assert len(fingerprints) == 2

    def test_a_method_without_source_is_never_taken_for_another(self):
        def define():
            return type("Own", (Random,), {"__module__": "notebook"})

        assert code_fingerprint(define()) != code_fingerprint(define())
