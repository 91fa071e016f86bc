"""Fingerprint of the code that computes a method's scores: every module it imports, and the method's version.

Comments, docstrings and layout do not change a fingerprint. A method whose scores change although its code does not
(another data file, another release of a library) says so by raising its class attribute `version`.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import inspect
import re
import sys
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import rationales
from rationales.evaluation.scores import attribution
from rationales.methods import Method
from rationales.models.image.model import ImageModel
from rationales.models.text.model import TextModel

PACKAGE = rationales.__name__
_MODULE_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)+")


@functools.cache
def code_fingerprint(method: type[Method]) -> str:
    """Fingerprint of a method's version and of all code that its scores depend on.

    That is the closure of what is imported by the method, its base classes, the two kinds of models and the function
    that calls them; for a method from outside the package also the closure within its own package.
    """
    classes = [cls for cls in method.__mro__ if cls.__module__.partition(".")[0] not in sys.stdlib_module_names]
    modules = {cls.__module__ for cls in (*classes, TextModel, ImageModel)} | {attribution.__name__}
    folders = {PACKAGE: Path(rationales.__file__).parents[1]} | {
        name.partition(".")[0]: folder for name in modules if (folder := _search_folder(name)) is not None
    }
    sources, libraries = import_closure(modules, folders)
    parts = [f"version {getattr(method, 'version', 0)}", *(f"{name} {sources[name]}" for name in sorted(sources))]
    parts += [_class_source(cls) for cls in classes if cls.__module__ not in sources]
    parts += _versions(libraries)
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()


def import_closure(modules: Iterable[str], folders: dict[str, Path]) -> tuple[dict[str, str], set[str]]:
    """Module name -> normalised source, of these modules and of all that they import; and the other packages imported.

    `folders`: the folder that holds each top-level package to follow. An import counts wherever it stands, also inside
    a function; so does a string that is the name of a module, for `importlib.import_module`. Imports for type checkers
    alone do not. `from package import name` leads to the module that the package takes the name from; the package's own
    `__init__` counts where it defines the name.
    """
    sources: dict[str, str] = {}
    libraries: set[str] = set()
    pending = list(modules)
    while pending:
        name = pending.pop()
        if (package := name.partition(".")[0]) not in folders:
            libraries.add(package)
        path = _module_file(name, folders)
        if path is None or name in sources:
            continue
        sources[name] = _normalised(path)
        pending += _imported(name, path, folders)
    return sources, libraries


def _imported(module: str, path: Path, folders: dict[str, Path]) -> Iterator[str]:
    """Names of the modules that a module uses."""
    for node in _import_nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = _absolute(node, module, path)
            for alias in node.names:
                yield from _origin(source, alias.name, folders)
        elif isinstance(node, ast.Constant) and _module_file(str(node.value), folders) is not None:
            yield str(node.value)


def _origin(package: str, name: str, folders: dict[str, Path]) -> Iterator[str]:
    """The module that defines `name` as `from package import name` finds it; the package itself where that is unclear.

    A package that only passes the name on is not part of the closure: it imports every other module as well.
    """
    path = _module_file(package, folders)
    if path is not None and path.name == "__init__.py":
        if _module_file(f"{package}.{name}", folders) is not None:
            yield f"{package}.{name}"
            return
        for node in ast.walk(_parse(path)):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        yield from _origin(_absolute(node, package, path), alias.name, folders)
                        return
    yield package


@functools.cache
def _import_nodes(path: Path) -> tuple[ast.AST, ...]:
    """Import statements and strings that look like module names, without what stands below `if TYPE_CHECKING:`."""
    nodes = []
    pending: list[ast.AST] = [_parse(path)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", getattr(node.test, "attr", "")) == "TYPE_CHECKING":
            pending += node.orelse
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and _MODULE_NAME.fullmatch(node.value)
        ):
            nodes.append(node)
        pending += ast.iter_child_nodes(node)
    return tuple(nodes)


def _absolute(node: ast.ImportFrom, module: str, path: Path) -> str:
    """The module that an import statement names, relative ones included."""
    if not node.level:
        return node.module or ""
    parents = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    base = parents[: len(parents) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def _module_file(name: str, folders: dict[str, Path]) -> Path | None:
    """The source of a module in one of the packages to follow."""
    folder = folders.get(name.partition(".")[0])
    if folder is None:
        return None
    path = folder.joinpath(*name.split("."))
    return next((file for file in (path / "__init__.py", path.with_name(f"{path.name}.py")) if file.is_file()), None)


def _search_folder(module: str) -> Path | None:
    """The folder that an imported module's top-level package lies in."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    depth = module.count(".") + (path.name == "__init__.py")
    folder = path.parents[depth]
    return folder if _module_file(module, {module.partition(".")[0]: folder}) is not None else None


@functools.cache
def _parse(path: Path) -> ast.Module:
    """The syntax tree of a file without docstrings and other strings that stand alone."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            statements = [statement for statement in body if not _is_text(statement)]
            node.body = statements or [ast.Pass()]  # type: ignore[attr-defined]  # nodes with a body allow assignment
    return tree


@functools.cache
def _normalised(path: Path) -> str:
    return ast.dump(_parse(path))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _class_source(cls: type) -> str:
    """The source of a class from a script or a notebook; where there is none, a value that never comes again."""
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):
        return uuid.uuid4().hex


def _versions(packages: Iterable[str]) -> list[str]:
    """Name and version of each of these packages that is installed."""
    versions = []
    for name in sorted(set(packages) - sys.stdlib_module_names):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{name} {importlib.metadata.version(name)}")
    return versions
