"""Imports between subpackages point from upper to lower layers, also imports inside functions."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import rationales

PACKAGE = Path(rationales.__file__).parent
LAYERS = (  # from top to bottom; a package or module may import its own layer and those below
    {"__main__", "app", "cli", "demo", "gallery"},
    {"integrations"},
    {"corpus", "experiments", "study"},
    {"report"},
    {"evaluation", "groundtruth"},
    {"pipeline"},
    {"methods"},
    {"masks"},
    {"models", "data"},
    {"data_frames", "rationale", "rationale_halves", "rationale_parts", "rendering", "storage"},
    {"errors", "files", "options", "version"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MAX_FILES = 16
MAX_FILES_ON_THE_PATH = 29  # of one explanation of a text


def top_level_name(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imported_modules(path: Path):
    """(line, module) of every import in a file, also inside functions, and of every string that names a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            yield node.lineno, node.module
            if node.module == "rationales":
                yield from ((node.lineno, f"rationales.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("rationales."):
            yield node.lineno, node.value.partition(" ")[0]


SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.name != "__init__.py")


def test_every_subpackage_has_a_layer():
    names = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in SOURCES}
    assert names <= LEVEL.keys()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_imports_upward(path):
    level = LEVEL[path.relative_to(PACKAGE).parts[0].removesuffix(".py")]
    upward = [
        f"line {line}: {module}"
        for line, module in imported_modules(path)
        if module.startswith("rationales.") and LEVEL.get(top_level_name(module), len(LAYERS)) < level
    ]
    assert not upward


def test_the_check_sees_an_import_inside_a_function(tmp_path):
    file = tmp_path / "lazy.py"
    file.write_text("def late():\n    from rationales.report.html import page\n    return page\n", encoding="utf-8")
    assert list(imported_modules(file)) == [(2, "rationales.report.html")]


def test_no_folder_is_crowded():
    sizes = Counter(path.parent for path in PACKAGE.rglob("*.py"))
    assert {str(folder.relative_to(PACKAGE)): count for folder, count in sizes.items() if count > MAX_FILES} == {}


def test_no_class_name_is_used_twice():
    names = Counter(
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


TRACE = """
import sys
import rationales
model = rationales.load()
rationales.explain(model, "A first call imports what is imported lazily.", options={"steps": 2})
files = []
def record(frame, event, argument):
    path = frame.f_code.co_filename
    if event == "call" and "/rationales/" in path and frame.f_code.co_name != "<module>":
        name = path.rsplit("/rationales/", 1)[1]
        if name not in files:
            files.append(name)
sys.setprofile(record)
rationales.explain(model, "The acting is fine, but the plot is a mess and nobody seems to care any more.")
sys.setprofile(None)
print("\\n".join(files))
"""


def test_the_documented_path_of_an_explanation_names_every_file_that_runs():
    done = subprocess.run([sys.executable, "-c", TRACE], capture_output=True, text=True, check=True)
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page[page.index("## The path of one explanation") : page.index("## Contracts")]
    documented = re.findall(r"`([\w/]+\.py)`", section)
    traced = done.stdout.split()
    assert set(documented) - {"tests/test_architecture.py"} == set(traced)
    assert len(traced) <= MAX_FILES_ON_THE_PATH
