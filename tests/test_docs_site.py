"""The documentation's site: every page is in it, links lead to its pages, and Sphinx builds it without a warning."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from browser import accessibility_findings, chromium

from rationales import gallery

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("site_build", ROOT / "docs" / "site" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(build, tmp_path_factory):
    pytest.importorskip("captum")  # whose subclass is documented
    folder = tmp_path_factory.mktemp("pages")
    build.copy_pages(folder)
    return folder


def test_every_page_is_in_a_chapter(build):
    listed = {name for chapter in build.CHAPTERS.values() for name in chapter}
    written = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"}
    assert written | {Path(page).stem for page in build.BESIDE.values()} | {"studies/README"} == listed


def test_every_link_leads_to_a_file_of_the_site(pages):
    broken = []
    for page in pages.rglob("*.md"):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            target = link.partition("#")[0]
            if target and not re.match(r"[a-z]+:", target) and not (page.parent / target).is_file():
                broken.append(f"{page.name}: {link}")
    assert broken == []


def test_every_name_of_the_reference_exists(build, pages):
    names = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(names) > 20
    assert (pages / "api.md").read_text(encoding="utf-8").count("auto") >= len(names)


@pytest.fixture(scope="module")
def site(build, tmp_path_factory):
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    pytest.importorskip("myst_parser", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    assert build.main(folder) == 0, "a warning of Sphinx"
    return folder


@pytest.mark.slow
def test_the_site_is_built_without_warnings_and_can_be_searched(site):
    assert (site / "searchindex.js").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README", "methods", "api", "gallery", "choose-method"])
def test_a_page_of_the_site_can_be_used_by_everybody(site, page):
    with chromium() as browser:
        for colours in ("light", "dark"):
            window = browser.new_page(color_scheme=colours)
            window.goto((site / f"{page}.html").as_uri())
            assert accessibility_findings(window) == []


def test_captions_have_a_level_and_wide_blocks_scroll_by_keyboard(build):
    caption = '<p class="caption" role="heading"><span>First</span></p>'
    assert build.accessible(caption) == caption.replace(">", ' aria-level="2">', 1)
    code = '<div class="highlight"><pre><span>x</span></pre></div>'
    assert '<pre tabindex="0">' in build.accessible(code)
    assert 'docutils container" tabindex="0">' in build.accessible('<div class="table-wrapper docutils container">')


def test_the_gallery_has_a_figure_for_every_result(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "EXAMPLES", (("short", "A short text", "A dull film.", ("occlusion",)),))
    page = gallery.write_gallery(tmp_path).read_text(encoding="utf-8")
    assert "## A short text" in page
    assert (tmp_path / "images" / "gallery" / "short-occlusion.svg").is_file()


def test_the_figures_of_the_gallery_are_those_of_its_examples():
    expected = {f"{name}-{method}.svg" for name, _, _, methods in gallery.EXAMPLES for method in methods}
    assert {path.name for path in (ROOT / "docs" / "images" / "gallery").iterdir()} == expected
