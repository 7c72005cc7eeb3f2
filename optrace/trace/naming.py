"""Public names for calls that reached paddle's C level without passing a public function."""

from __future__ import annotations

from collections.abc import Iterable

from optrace.trace.records import Call

_C_LEVEL = "paddle._C_ops."
# Layers that are one C call; people know them by the layer's name.
_LAYERS = frozenset({"LSTM", "GRU", "SimpleRNN"})


def promote(calls: Iterable[Call]) -> None:
    """Give outermost C-level calls the public name that stands for them; the C name goes to ``via``."""
    from optrace import ops

    for call in calls:
        if call.parent != -1 or not call.api.startswith(_C_LEVEL):
            continue
        if call.api == "paddle._C_ops.rnn" and call.module_type in _LAYERS:
            public = f"paddle.nn.{call.module_type}"
        else:
            row = ops.lookup(call.api)
            names = row.names("paddle") if row is not None else ()
            public = next((n for n in names if not n.startswith(_C_LEVEL)), "")
        if public:
            call.via, call.api = call.api, public
