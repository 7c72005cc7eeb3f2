"""The forced run: the raw side's calls again, each fed with base's values wherever they correspond.

Because every input that has a counterpart is replaced by base's own value, errors do not travel:
what a call gets wrong here, it gets wrong by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

import numpy as np

from optrace.align.correspondence import Correspondence
from optrace.align.graph import Graph, Key, Node
from optrace.align.index import Match, ValueIndex, is_weak
from optrace.diagnose import replay
from optrace.diagnose.arguments import moves
from optrace.diagnose.environment import Environment
from optrace.diagnose.replay import Replayer, Unreplayable
from optrace.ops import same_job
from optrace.progress import tell
from optrace.trace.arrays import Arrays


class Forced(Correspondence):
    """State of a forced run; ``run`` brings it up to date from a node on."""

    def __init__(self, base: Graph, raw: Graph, index: ValueIndex, outputs: frozenset[Key]) -> None:
        super().__init__(base, raw, outputs)
        self.index = index
        self.replayer = Replayer(raw.trace)
        self.env = Environment(base.trace)
        self.own: MutableMapping[Key, np.ndarray] = Arrays()
        for ref in raw.leaves:
            self._leaf(ref.key)

    def value(self, key: Key) -> np.ndarray | None:
        """What consumers of a raw value are fed with."""
        found = self.env.get(key)
        return found if found is not None else super().value(key)

    def rerun(self, node: Node, override: Mapping[str, Any]) -> dict[Key, np.ndarray]:
        try:
            return self.replayer.run(node.call, self.env, override)
        except Unreplayable:
            return {}

    # -- running ---------------------------------------------------------------------------------

    def run(self, start: int = 0) -> None:
        nodes = self.raw.nodes
        for node in nodes[start:]:
            self.step(node)
            if node.index % 64 == 0:
                tell(node.index, len(nodes), "comparing calls")

    def step(self, node: Node) -> None:
        """Run one node on the current environment and match what comes out."""
        try:
            made = self.evaluate(node)
            self.unreplayable.pop(node.index, None)
        except Unreplayable as error:
            self.unreplayable[node.index] = str(error)
            made = {}
        for key in node.outputs:
            self._made(node, key, made.get(key))

    def evaluate(self, node: Node) -> dict[Key, np.ndarray]:
        """What ``node`` makes of the current environment; recorded outputs where nothing changed."""
        redrawn = node.call.random and replay.redrawn is not None and replay.redrawn(node.call)
        if not redrawn and self._untouched(node):
            known = {k: self.raw.trace.value(self.raw.refs[k]) for k in node.outputs}
            if all(v is not None for v in known.values()):
                return {k: v for k, v in known.items() if v is not None}
        return self.replayer.run(node.call, self.env)

    def _untouched(self, node: Node) -> bool:
        """Whether the node's inputs are the very values of the recorded run."""
        for key in node.inputs:
            forced = self.env.get(key)
            if forced is None:
                continue
            recorded = self.raw.trace.value(self.raw.refs[key])
            if (
                recorded is None
                or forced.dtype != recorded.dtype
                or not np.array_equal(forced, recorded, equal_nan=forced.dtype.kind in "fc")
            ):
                return False
        return True

    def _leaf(self, key: Key) -> None:
        value = self.raw.trace.value(self.raw.refs[key])
        if value is not None:
            if is_weak(value):
                self.weak.add(key)
            # A parameter may be kept transposed on the other side.
            self.matches[key] = self.index.find(value, self.raw.refs[key].dtype, 1, moved=value.ndim == 2)

    def _made(self, node: Node, key: Key, value: np.ndarray | None) -> None:
        ref = self.raw.refs[key]
        if value is None:
            value = self.raw.trace.value(ref)
            if value is None:
                return
        self.own[key] = value
        repair = self.repairs.get(key)
        if repair is not None:
            self.env[key] = repair.value
            self.matches.pop(key, None)
            return
        found = self.index.find(value, ref.dtype, self.reduction(node), moved=not moves(node.call))
        if any(m.layout.axes for m in found) and not self._transposed(node):
            # Of equal axis lengths a transposed result may as well be a wrong one (a softmax over the other axis).
            found = [m for m in found if m.layout.axes is None or self.base.refs[m.key].shape != ref.shape]
        found = [m for m in found if not self._inside_its_own(node, m)]
        if is_weak(value):
            self.weak.add(key)
            if key not in self.outputs:
                found = [m for m in found if self._plausible(node, m)]
        self.matches[key] = found
        if found:
            best = found[0]
            self.env.follow(key, best.key, best.layout, value.dtype)
        else:
            self.env[key] = value

    def _transposed(self, node: Node) -> bool:
        """Whether what ``node`` reads already has another layout than base's."""
        return any(m.layout.axes is not None for k in node.inputs for m in self.matches.get(k, ())[:1])

    def _inside_its_own(self, node: Node, match: Match) -> bool:
        """Whether the match is a step inside an opened base call that does the same job as ``node``.

        A linear layer whose bias was forgotten must not pass for base's product before the bias.
        """
        makers = self.base.makers.get(match.key, ())
        return any(same_job(self.base.inside.get(c.id, ""), node.call.api) for c in makers)

    def _plausible(self, node: Node, match: Match) -> bool:
        """Whether a value that says little comes from the same kind of call as its match."""
        return any(same_job(node.call.api, c.api) for c in self.base.makers.get(match.key, ())) or (
            match.key not in self.base.makers
        )
