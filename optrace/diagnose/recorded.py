"""Findings from what two runs recorded, nothing run again: fingerprints, or values without a framework.

Errors travel here. So a call is blamed only where all it reads agrees and its result does not; behind
such a call, only arguments that differ are reported.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from optrace import ops
from optrace.align.drawn import drawn_from
from optrace.align.graph import Graph, Key, Node
from optrace.align.prints import Prints
from optrace.align.sequence import pairs
from optrace.diagnose.argument_causes import argument_cause
from optrace.diagnose.evidence import check_comparable, gather
from optrace.diagnose.explain import explain
from optrace.diagnose.findings import Cause, Error, ErrorFigures, Evidence, Finding, Spread, Warn
from optrace.diagnose.merge import merged
from optrace.diagnose.results import differing_results, ended_early
from optrace.diagnose.siblings import unusual_differences
from optrace.diagnose.warn import code_differences
from optrace.errors import ComparisonError
from optrace.trace.model import Trace
from optrace.trace.records import Call, line_of, tensors_in

_log = logging.getLogger(__name__)


class Drawn(NamedTuple):
    """Values of each side that depend on random numbers, and the call that drew them."""

    base: Mapping[Key, Call]
    raw: Mapping[Key, Call]


NOTHING_DRAWN = Drawn({}, {})


class RecordedComparison:
    """One comparison of two traces as they are.

    ``distrusted``: where these are parts of longer runs, raw values from before that are known to be wrong;
    ``drawn``: values from before that depend on random numbers.
    """

    def __init__(
        self,
        base: Trace,
        raw: Trace,
        rtol: float | None = None,
        atol: float | None = None,
        distrusted: Iterable[Key] = (),
        drawn: Drawn = NOTHING_DRAWN,
    ) -> None:
        self.base, self.raw = Graph(base), Graph(raw)
        for side, graph in (("base", self.base), ("raw", self.raw)):
            if not graph.nodes:
                raise ComparisonError(f"the {side} trace holds no framework call that could be compared")
        known = [r.key for r in tensors_in(raw.outputs)]
        outputs = frozenset([k for k in known if k in self.raw.producer] or self.raw.sinks())
        self.prints = Prints(self.base, self.raw, outputs, rtol, atol)
        self.prints.distrusted.update(distrusted)
        self.base_drawn = drawn_from(self.base, known=drawn.base)
        self.prints.drawn = drawn_from(self.raw, self.prints.matched, drawn.raw)
        self.findings: list[Finding] = []
        if not self.prints.matches:
            raise ComparisonError(
                "these traces hold no values and no fingerprints (level 'meta'), so nothing can be said about "
                "the numbers; record them with level 'stats' or 'full'"
            )

    def run(self) -> tuple[list[Finding], list[Warn], Evidence]:
        check_comparable(self.prints)
        _log.info("%d calls of base against %d of raw", len(self.base.nodes), len(self.raw.nodes))
        self.judge()
        if not self.findings:
            self.findings = differing_results(self.prints)
        self.findings += ended_early(self.prints)
        return merged(self.findings), code_differences(self.prints), gather(self.prints)

    @cached_property
    def counterparts(self) -> dict[int, Node]:
        """Base's call for raw's, by the index of raw's."""
        return {r.index: b for b, r in pairs(self.base, self.raw)}

    def judge(self) -> None:
        """Find the calls that are to blame."""
        roots = [n for n in self.prints.roots() if not self.prints.unknown.intersection(n.outputs)]
        if roots or self.prints.distrusted:
            self._behind(self._roots(roots))
        self.findings.sort(key=lambda f: f.raw.id if f.raw is not None else -1)

    def _roots(self, roots: list[Node]) -> set[Key]:
        """Report the calls whose inputs agree and whose result does not; returns all that depends on them."""
        certain = [n for n in roots if not self.prints.witnessed(n)] or roots
        tainted = self.prints.distrusted | self._descend(self.prints.distrusted)
        for node in certain:
            if not tainted.isdisjoint(node.inputs):
                continue
            base = self._reads_the_same(node) or self.counterparts.get(node.index)
            key = node.outputs[0]
            if self._drawn_alike(node, base):
                self._compare_draws(node, base)
            elif key in self.prints.drawn:
                self._add(node, key, None, self._random_here(node, base))
            elif base is None:
                text = f"from {node.call.api} on, the raw side's values are none of base's"
                self._add(node, key, None, Cause("value", text, None))
            else:
                base_key = base.outputs[0] if base.outputs else tensors_in(base.call.outputs)[0].key
                self._add(node, key, base_key, explain(self.prints, node, key, base.call, base_key))
            tainted.update(node.outputs)
            for i in self.raw.descendants(node.index):
                tainted.update(self.raw.nodes[i].outputs)
        return tainted

    def _drawn_alike(self, node: Node, base: Node | None) -> bool:
        """Whether both sides' results depend on random numbers, so that they need not agree."""
        if not any(k in self.prints.drawn for k in node.outputs):
            return False
        return bool(self._free_draws) if base is None else any(k in self.base_drawn for k in base.outputs)

    @cached_property
    def _free_draws(self) -> list[Node]:
        """Base's nodes that draw and that are no raw node's counterpart."""
        taken = {n.index for n in self.counterparts.values()}
        made = {c.id for c in self.base_drawn.values()}
        return [n for n in self.base.nodes if n.call.id in made and n.index not in taken]

    def _compare_draws(self, node: Node, base: Node | None) -> None:
        """What can be said of two draws: whether they are of the same distribution."""
        if base is None or not ops.same_job(base.call.api, node.call.api):
            return
        found = unusual_differences(self.prints, node, base.call)
        if found:
            self._add(node, node.outputs[0], None, argument_cause(base.call, node.call, found))

    def _random_here(self, node: Node, base: Node | None) -> Cause:
        source = self.prints.drawn[node.outputs[0]]
        what = "draws" if source is node.call else f"depends on what {source.api} ({line_of(source)}) draws"
        text = f"{node.call.api} {what}; base draws nothing there"
        return Cause("random", text, None if base is None else base.call)

    def _descend(self, wrong: set[Key]) -> set[Key]:
        """Values that depend on one of ``wrong`` and are not base's."""
        reached: set[Key] = set()
        for node in self.raw.nodes if wrong else ():
            if not (wrong.isdisjoint(node.inputs) and reached.isdisjoint(node.inputs)):
                reached.update(k for k in node.outputs if not self.prints.matched(k))
        return reached

    def _reads_the_same(self, node: Node) -> Node | None:
        """The base call of the same kind that reads a value ``node`` reads."""
        read = frozenset().union(
            *(self.prints.base_keys(k) for k in node.inputs if k not in self.prints.weak)
        )
        for key in sorted(read):
            for i in self.base.consumers.get(key, ()):
                if ops.same_job(self.base.nodes[i].call.api, node.call.api):
                    return self.base.nodes[i]
        return None

    def _behind(self, tainted: set[Key]) -> None:
        """Differing arguments of calls that a wrong value reaches: their own numbers can't be judged."""
        reported = {f.raw.id for f in self.findings if f.raw is not None}
        for node in self.raw.nodes:
            base = self.counterparts.get(node.index)
            if base is None or node.call.id in reported or tainted.isdisjoint(node.outputs):
                continue
            if not ops.same_job(base.call.api, node.call.api) or not self._in_place(node, base):
                continue
            found = unusual_differences(self.prints, node, base.call)
            if found:
                self._add(node, node.outputs[0], None, argument_cause(base.call, node.call, found))

    def _in_place(self, node: Node, base: Node) -> bool:
        """Whether two calls behind a wrong value still read and make tensors of the same shapes."""

        def shapes(graph: Graph, n: Node) -> list[tuple[int, ...]]:
            return [graph.refs[k].shape for k in (*n.inputs, *n.outputs) if len(graph.refs[k].shape) != 2]

        return shapes(self.raw, node) == shapes(self.base, base)

    def _add(self, node: Node, key: Key, base_key: Key | None, cause: Cause) -> None:
        base: Call | None = cause.base
        observed = None
        if base_key is not None:
            gap = self.prints.gap(self.base.refs[base_key], self.raw.refs[key])
            observed = ErrorFigures(math.nan, math.nan, gap, math.nan, "estimated from fingerprints")
        reach = self.raw.descendants(node.index)
        ends = self.prints.outputs.intersection(
            k for i in (node.index, *reach) for k in self.raw.nodes[i].outputs
        )
        self.findings.append(
            Finding(
                kind=cause.kind,
                message=cause.message,
                base=base,
                raw=cause.raw if cause.raw is not None else node.call,
                argument=cause.argument,
                parameter=cause.parameter,
                error=Error(None, observed),
                differences=cause.differences,
                suggestion=cause.suggestion,
                spread=Spread(len(reach), bool(ends)),
                step=node.call.step,
            )
        )
