"""Which version this is, the one place that the build reads it from; and the versions of other packages."""

import functools
import importlib.metadata

__version__ = "0.1.0"


@functools.cache
def installed_version(package: str) -> str:
    """The version of an installed package; reading its metadata takes longer than explaining a short text."""
    return importlib.metadata.version(package)
