"""The display of a model: one line in a shell, a small table in a notebook."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from html import escape

SHOWN_LABELS = 6


class ModelDisplay:
    """Mixin for models: `repr` and notebook display from a name and a few facts."""

    name: str

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """The properties to show, in this order."""

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}: {value}" for name, value in self.facts().items())
        return f"<{type(self).__name__} {self.name!r}; {facts}>"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self.facts().items()
        )
        return f"<table><caption>{type(self).__name__} {escape(self.name)}</caption>{rows}</table>"


def label_list(labels: Sequence[str]) -> str:
    """The first labels, and the number of further ones."""
    beyond = f" and {len(labels) - SHOWN_LABELS:,} more" if len(labels) > SHOWN_LABELS else ""
    return ", ".join(labels[:SHOWN_LABELS]) + beyond
