"""Methods that turn rows and a target into one score per unit. All of them stand in `METHODS`."""

from __future__ import annotations

import sys
from types import ModuleType

from rationales.errors import OptionError
from rationales.methods.marc import Marc
from rationales.methods.method import Attribution, Method, MethodInfo, OptionInfo, describe, make
from rationales.methods.occlusion import Occlusion
from rationales.methods.random import Random

METHODS: dict[str, type[Method]] = {method.name: method for method in (Marc, Occlusion, Random)}


def methods() -> list[MethodInfo]:
    """What there is, with one line each, what it needs and its options."""
    return [describe(method) for method in METHODS.values()]


def build(name: str, options: dict[str, object] | None = None, kind: str = "text") -> Method:
    """The method called `name` with these options, for inputs of this kind."""
    if name not in METHODS:
        raise OptionError(f"there is no method {name!r}; there are: {', '.join(METHODS)}")
    return make(METHODS[name], options or {}, kind)


class _Listing(ModuleType):
    """Once loaded, this package stands where `rationales.methods`, the function, was; so it can be called as well."""

    def __call__(self) -> list[MethodInfo]:
        return methods()


sys.modules[__name__].__class__ = _Listing

__all__ = ["METHODS", "Attribution", "Method", "MethodInfo", "OptionInfo", "build", "methods"]
