"""Open a fused base call: its expansion into elementary calls, run on what base's call read."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from optrace import frameworks, ops
from optrace.align.graph import FIRST_EXTRA, Graph, Key
from optrace.align.index import ValueIndex
from optrace.trace.records import Call, DtypeRef, Opaque, TensorRef, tensors_in
from optrace.trace.session import trace


def expand(graph: Graph, index: ValueIndex, call: Call) -> bool:
    """Add the expansion's calls and values to the graph and the index; false where there is none.

    The values that the expansion makes get keys of their own; the trace itself keeps its calls.
    """
    function = ops.expansion(call.via or call.api)
    if function is None:
        return False
    framework = frameworks.get(call.framework)
    live: dict[Key, Any] = {}

    def alive(arg: Any) -> Any:
        if isinstance(arg, TensorRef):
            if arg.key not in live:
                value = graph.trace.value(arg)
                if value is None:
                    raise LookupError(arg.key)
                live[arg.key] = framework.from_numpy(value)
            return live[arg.key]
        if isinstance(arg, (list, tuple)):
            return type(arg)(alive(a) for a in arg)
        if isinstance(arg, DtypeRef):
            return framework.dtype(arg.name)
        return arg.obj if isinstance(arg, Opaque) else arg

    session = trace(level="full", frameworks=[call.framework])
    state = framework.rng_state()
    try:
        arguments = {name: alive(value) for name, value in call.args.items()}
        with framework.no_grad(), session as inner:
            function(**arguments)
        known = {session.record(t)[0].key: key for key, t in live.items()}
    except Exception:
        return False  # an argument that the expansion does not take: the call stays closed
    finally:
        framework.set_rng_state(state)
    names: dict[Key, Key] = dict(known)
    for made in inner.calls:
        if made.parent == -1 and made.error is None:
            _adopt(graph, index, call, made, names)
    return True


def _adopt(graph: Graph, index: ValueIndex, call: Call, made: Call, names: dict[Key, Key]) -> None:
    """Make a call of the expansion one of the graph's, under new value keys."""
    number = FIRST_EXTRA + len(graph.extra)

    def rename(tree: Any) -> Any:
        if isinstance(tree, TensorRef):
            if tree.key not in names:
                names[tree.key] = (FIRST_EXTRA + len(names) + 1000 * number, 0)
            uid, version = names[tree.key]
            return msgspec.structs.replace(tree, uid=uid, version=version)
        if isinstance(tree, (list, tuple)):
            return type(tree)(rename(t) for t in tree)
        if isinstance(tree, dict):
            return {k: rename(v) for k, v in tree.items()}
        return tree

    adopted = msgspec.structs.replace(
        made,
        id=number,
        parent=call.id,
        site=call.site,
        module=call.module,
        module_type=call.module_type,
        positional=rename(made.positional),
        keyword=rename(made.keyword),
        outputs=rename(made.outputs),
        mutated=rename(made.mutated),
    )
    adopted.owner = graph.trace
    inner = made.trace
    for old, new in zip(
        tensors_in(made.outputs) + made.mutated, tensors_in(adopted.outputs) + adopted.mutated
    ):
        value: np.ndarray | None = inner.value(old)
        if value is not None and new.key not in graph.refs:
            graph.trace.values[new.key] = value
            graph.refs[new.key] = new
            index.add(new.key, value)
        graph.makers.setdefault(new.key, []).append(adopted)
    graph.extra.append(adopted)
    graph.inside[number] = call.api
