"""Ways of removal: those that methods are built on, those that protocols judge by, and where the two are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rationales.errors import OptionError
from rationales.evaluation.faithfulness.removal import removal_baseline
from rationales.evaluation.protocols import FILL, IN_TURN, PRESETS, REMOVALS, Protocol, find_protocol
from rationales.methods import Method
from rationales.options import suggestion

_REMOVES = {"delete": "deletes units", "fill": "fills units in with a masked language model"}
_TRAINED = {"delete": "units deleted", "fill": "units filled in by a masked language model"}


def method_operation(method: Method, model: Any) -> str | None:
    """How a method, or the training of its network, removes units: delete, fill or a baseline; None: not at all."""
    operation = method.removal_operation or method.training_operation
    return removal_baseline(model, operation) if operation else None


def protocol_operation(protocol: Protocol, model: Any) -> str | None:
    """How a protocol removes units, in the same words; None where it uses several baselines."""
    return removal_baseline(model, protocol.removal) if isinstance(protocol.removal, str) else None


def resolve_protocols(requested: Sequence[str | Protocol], base: str | Protocol, kind: str) -> list[Protocol]:
    """Protocols from names, objects and ways of removal; a way of removal stands for `base` with that removal."""
    if isinstance(requested, (str, Protocol)) or len(requested) < 2:
        raise OptionError(f"a comparison needs at least two protocols or ways of removal: {', '.join(REMOVALS)}")
    resolved = [_resolve(item, find_protocol(base, kind), kind) for item in requested]
    names = [protocol.name for protocol in resolved]
    if duplicates := [name for number, name in enumerate(names) if name in names[:number]]:
        raise OptionError(f"two protocols are called {duplicates[0]!r}; leave one out, or give it another name")
    return resolved


def _resolve(item: str | Protocol, base: Protocol, kind: str) -> Protocol:
    if isinstance(item, Protocol) or item in PRESETS:
        return find_protocol(item, kind)
    if item not in REMOVALS:
        known = [*REMOVALS, *PRESETS]
        close = suggestion(item, known)
        raise OptionError(f"there is no protocol or removal {item!r}{close}; there are: {', '.join(known)}")
    changes: dict[str, Any] = {"name": item, "removal": item, "odds_removal": None}
    if item == FILL and base.each is not None:  # one word at a time, as the recipe removes them
        changes["fill_order"] = IN_TURN
    return find_protocol(replace(base, **changes), kind)


def shared_operations(methods: Sequence[tuple[str, Method]], protocols: Sequence[Protocol], model: Any) -> list[str]:
    """One sentence for every method that a protocol judges by the operation that the method is built on."""
    sentences = []
    for title, method in methods:
        operation = method_operation(method, model)
        names = [
            protocol.name for protocol in protocols if operation and protocol_operation(protocol, model) == operation
        ]
        if operation and names and method.removal_operation:
            how = _REMOVES.get(operation, f"replaces units by {operation}")
            verb = "does" if len(names) == 1 else "do"
            sentences.append(f"{title} {how}, and so {verb} {', '.join(names)}: these figures favour it.")
        elif operation and names:
            how = _TRAINED.get(operation, f"units replaced by {operation}")
            sentences.append(f"{title} was trained with {how}, as under {', '.join(names)}: these figures favour it.")
    return sentences
