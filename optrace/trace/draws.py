"""What a call drew: whether a generator moved, and the keep mask of what drops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from optrace.frameworks.base import Framework
from optrace.trace.records import Call, TensorRef

if TYPE_CHECKING:
    from optrace.trace.model import Trace

# Calls whose mask is had by running them again from the same state on these arguments.
_MASKED = ("dropout", "dropout1d", "dropout2d", "dropout3d", "fused_dropout_add")

# They move a generator without drawing from it.
_SETTERS = ("seed", "manual_seed", "set_rng_state", "set_state", "seed_all", "fork_rng")


class Handed(threading.local):
    """The draw that the call under way was given instead of making its own."""

    draw: np.ndarray | None = None
    asking: bool = False  # a call is run again for its mask; nobody is to hand it another


handed = Handed()


class DrawWatch:
    """Watches generators across calls; ``everything``: across those not known to draw, too."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.everything = False
        self._known: dict[str, frozenset[str]] = {}

    def watches(self, framework: str, api: str) -> bool:
        """Whether generators are to be watched across calls of ``api``: it may draw."""
        return not api.endswith(_SETTERS) and (self.everything or api in self._names(framework))

    def after(
        self,
        framework: Framework,
        call: Call,
        before: Any,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
    ) -> None:
        """Note what the call has drawn. The generator is left where the call left it."""
        state = framework.rng_state()
        draw, handed.draw = handed.draw, None
        if draw is not None:
            call.random = True
            call.draw = self._trace.array(draw)
            return
        call.random = state != before
        if call.random and self._trace.level == "full":
            try:
                handed.asking = True
                framework.set_rng_state(before)
                mask = _mask(framework, call, function, args, kwargs)
            except Exception:
                mask = None  # not a call that can be asked this way
            finally:
                handed.asking = False
                framework.set_rng_state(state)
            if mask is not None:
                call.draw = self._trace.array(mask)

    def _names(self, framework: str) -> frozenset[str]:
        found = self._known.get(framework)
        if found is None:
            from optrace.ops import random_ops

            found = self._known[framework] = random_ops(framework)
        return found


def _mask(framework: Framework, call: Call, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The keep mask of a call, from the state it started in."""
    name = call.api.rpartition(".")[2].rstrip("_")
    refs = call.positional
    if name in _MASKED and call.via is None and args and isinstance(refs[0], TensorRef):
        ones = framework.from_numpy(np.ones(refs[0].shape, _plain(refs[0])))
        rest = list(args[1:])
        if name == "fused_dropout_add" and rest:
            rest[0] = framework.from_numpy(np.zeros(refs[1].shape, _plain(refs[1])))
        with framework.no_grad():
            return framework.to_numpy(function(ones, *rest, **kwargs)) != 0
    if name == "scaled_dot_product_attention" and call.framework == "torch" and len(args) >= 3:
        return _attention_mask(framework, call, function, args, kwargs)
    return None


def _attention_mask(
    framework: Framework, call: Call, function: Callable[..., Any], args: Any, kwargs: Any
) -> Any:
    """Attention weights show, after dropout, when ``value`` is the identity."""
    query, _, value = call.positional[:3]
    keys = value.shape[-2]
    eye = np.broadcast_to(np.eye(keys, dtype=_plain(query)), (*value.shape[:-1], keys)).copy()
    with framework.no_grad():
        weights = function(*args[:2], framework.from_numpy(eye), *args[3:], **kwargs)
    return framework.to_numpy(weights) != 0


def _plain(ref: TensorRef) -> Any:
    if ref.dtype == "bfloat16":
        import ml_dtypes

        return ml_dtypes.bfloat16
    return ref.dtype
