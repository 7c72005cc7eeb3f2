"""Which values depend on random numbers, and on which draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from optrace.align.graph import Graph, Key
from optrace.trace.records import Call


def drawn_from(
    graph: Graph, fixed: Callable[[Key], bool] = lambda key: False, known: Mapping[Key, Call] | None = None
) -> dict[Key, Call]:
    """For every value that descends from a random call, the first such call.

    Values that are ``fixed`` depend on nothing. ``known``: dependent values from before the graph begins.
    """
    found: dict[Key, Call] = dict(known or {})
    drawing = _drawing(graph)
    if not drawing and not found:
        return found
    for node in graph.nodes:
        source = next((found[k] for k in node.inputs if k in found), None)
        if source is None and node.call.id in drawing:
            source = node.call
        if source is not None:
            found.update((k, source) for k in node.outputs if k not in found and not fixed(k))
    return found


def _drawing(graph: Graph) -> set[int]:
    """Ids of the calls that moved a generator, or were given one of their own, and of those they are inside of."""
    calls = graph.trace.calls
    draws = [c for c in calls if c.random or c.keyword.get("generator") is not None]
    parents = {c.id: c.parent for c in calls} if draws else {}
    found: set[int] = set()
    for call in draws:
        id_ = call.id
        while id_ in parents and id_ not in found:
            found.add(id_)
            id_ = parents[id_]
    return found
