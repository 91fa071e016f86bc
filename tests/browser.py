"""Real Chromium for tests: pages opened through Playwright, and axe-core's findings on them.

    def test_the_page_is_accessible(tmp_path):
        with chromium() as browser:
            page = browser.new_page()
            page.goto(written.as_uri())
            assert accessibility_findings(page) == []

Tests are skipped, with the reason in pytest's summary, where Playwright, a browser or axe-core cannot be had. The
browser is the system's (`CHROMIUM` names another); axe-core is taken from npm once, checked against its hash, and kept
in .venv/cache. `AXE_CORE` names a file in its place.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
AXE_VERSION = "4.14.0"
AXE_SHA256 = "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"  # of axe.min.js
NPM_SECONDS = 60  # for the download
SERIOUS = ("serious", "critical")  # impacts of axe-core: minor, moderate, serious, critical


@contextmanager
def chromium(**options: Any) -> Iterator[Any]:
    """A browser of Playwright, closed afterwards; `options`: those of its `launch`.

    Open it inside of one test or of a fixture of a module: while it is open, asyncio has a running loop.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=_chromium_path(), args=["--no-sandbox"], **options)
        try:
            yield browser
        finally:
            browser.close()


def accessibility_findings(page: Any, impacts: Sequence[str] = SERIOUS, within: str = "html") -> list[str]:
    """What axe-core finds in a page, one line for each element: rule, impact, element and what to do.

    `within`: a selector of what is checked. The script is evaluated by the driver, so that a page's policy holds.
    """
    page.evaluate(_axe_source())
    results = page.evaluate("selector => axe.run(selector, {resultTypes: ['violations']})", within)
    return [
        f"{violation['id']} ({node['impact']}): {node['html'][:160]}: {node['failureSummary']}"
        for violation in results["violations"]
        for node in violation["nodes"]
        if node["impact"] in impacts
    ]


def overflow(page: Any) -> int:
    """Pixels by which the content is wider than the window: 0 where nothing scrolls sideways."""
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def _chromium_path() -> str:
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no browser: install Chromium, or name one in CHROMIUM")
    return path


@cache
def _axe_source() -> str:
    """axe-core's script, from AXE_CORE, .venv/cache or npm."""
    if named := os.environ.get("AXE_CORE"):
        return Path(named).read_text(encoding="utf-8")
    path = ROOT / ".venv" / "cache" / f"axe-core-{AXE_VERSION}.min.js"
    if not path.is_file():
        _download(path)
    source = path.read_bytes()
    assert hashlib.sha256(source).hexdigest() == AXE_SHA256, f"{path} is not axe-core {AXE_VERSION}: delete it"
    return source.decode("utf-8")


def _download(path: Path) -> None:
    """Write axe-core's script from npm; a test that needs it is skipped where that fails."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm, which axe-core is taken from; or name a file in AXE_CORE")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        command = [npm, "pack", "--silent", "--cache", f"{folder}/npm", f"axe-core@{AXE_VERSION}"]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=NPM_SECONDS)
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"npm cannot get axe-core {AXE_VERSION}: {error}")
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            member = archive.extractfile("package/axe.min.js")
            assert member is not None
            script = Path(folder) / "axe.min.js"
            script.write_bytes(member.read())
        script.replace(path)
