"""`make docs`: builds the searchable documentation, offline and without warnings, from the Markdown pages.

    python docs/site/build.py OUT

The pages are written for a repository: they link to each other and to files beside docs/. They are copied, their links
adapted, `::: name` in api.md is replaced by what Sphinx reads from the docstring, and Sphinx builds OUT.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BESIDE = {"README.md": "front-page.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
CHAPTERS = {  # every page is in one of them, or the build fails
    "First": ("start", "own-model", "choose-method", "gallery", "front-page"),
    "Manual": (
        *("command-line", "methods", "marc", "instant", "aml", "inside-transformers"),
        "language-models",
        *("images", "audio", "image-text", "corpus", "serve", "output", "integrations"),
    ),
    "Judge explanations": (
        *("evaluate", "metrics", "data", "stability", "ground-truth", "human-studies", "movie-reviews"),
        *("input-marginalization", "speed", "studies/README"),
    ),
    "Reference": ("api", "architecture", "dependencies", "contributing", "versions", "changelog"),
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_OBJECT = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)


def adapted(markdown: str, page: Path) -> str:
    """A page whose links lead to pages of the site; `page`: its path in the repository, from the root."""

    def lead(match: re.Match[str]) -> str:
        mark, text, link = match.groups()
        target, hash_sign, anchor = link.partition("#")
        if not target or link.startswith(("http://", "https://", "mailto:")):
            return match.group()
        path = (ROOT / page.parent / target).resolve().relative_to(ROOT)
        depth = len(page.parent.parts) - 1 if page.parts[0] == "docs" else 0
        if str(path) in BESIDE:
            return f"{mark}[{text}]({'../' * depth}{BESIDE[str(path)]}{hash_sign}{anchor})"
        if path.parts[0] == "docs" and (ROOT / path).is_file():
            return f"{mark}[{text}]({'../' * depth}{path.relative_to('docs').as_posix()}{hash_sign}{anchor})"
        return f"{text} (`{path.as_posix()}`)"

    return _LINK.sub(lead, _OBJECT.sub(_directive, markdown))


def _directive(match: re.Match[str]) -> str:
    """The directive of Sphinx for an object by its full name."""
    name = match[1]
    documented = pkgutil.resolve_name(name)
    kind = "class" if inspect.isclass(documented) else "module" if inspect.ismodule(documented) else "function"
    members = "   :members:\n" if kind != "function" else ""
    return f"```{{eval-rst}}\n.. auto{kind}:: {name}\n{members}```"


def copy_pages(folder: Path) -> None:
    """The pages, images and notebooks, and a first page with the table of contents, in `folder`."""
    for path in sorted(DOCS.rglob("*")):
        inside = path.relative_to(DOCS)
        if path.is_dir() or inside.parts[0] == "site":
            continue
        target = folder / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(adapted(path.read_text(encoding="utf-8"), path.relative_to(ROOT)), encoding="utf-8")
        else:
            shutil.copy(path, target)
    for source, page in BESIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        (folder / page).write_text(adapted(text, Path(source)), encoding="utf-8")
    studies = sorted(path.stem for path in (DOCS / "studies").glob("*.md") if path.stem != "README")
    with (folder / "studies" / "README.md").open("a", encoding="utf-8") as file:
        file.write(_contents("", studies))
    with (folder / "README.md").open("a", encoding="utf-8") as file:
        file.write("".join(_contents(caption, pages) for caption, pages in CHAPTERS.items()))


def _contents(caption: str, pages: list[str] | tuple[str, ...]) -> str:
    title = f":caption: {caption}\n" if caption else ""
    return f"\n```{{toctree}}\n:hidden:\n{title}\n{chr(10).join(pages)}\n```\n"


def main(out: Path) -> int:
    """Build the site; the exit code of Sphinx, which is not 0 after any warning."""
    from sphinx.cmd.build import main as sphinx_build

    with tempfile.TemporaryDirectory() as folder:
        copy_pages(Path(folder))
        settings = ["-W", "--keep-going", "-q", "-b", "html", "-c", str(Path(__file__).parent)]
        code = sphinx_build([*settings, "-d", str(Path(folder) / "doctrees"), folder, str(out)])
    for page in out.rglob("*.html"):
        page.write_text(accessible(page.read_text(encoding="utf-8")), encoding="utf-8")
    return code


def accessible(page: str) -> str:
    """The HTML with what Sphinx leaves out: levels of captions that it calls headings, and scrolling by keyboard."""
    page = page.replace('<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">')
    page = page.replace('<div class="highlight"><pre>', '<div class="highlight"><pre tabindex="0">')
    return re.sub(r'<div class="table-wrapper([^"]*)">', r'<div class="table-wrapper\1" tabindex="0">', page)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
