"""From two traces with values to findings: force, find the first trouble, mend it, go on."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from optrace.align.correspondence import Repair
from optrace.align.graph import Graph, Key, Node
from optrace.align.index import ValueIndex
from optrace.align.values import Difference, agree, as_float, difference
from optrace.diagnose import repair
from optrace.diagnose.argument_causes import argument_cause, differing_arguments
from optrace.diagnose.arguments import named_tensors
from optrace.diagnose.evidence import check_comparable, gather
from optrace.diagnose.expand import expand
from optrace.diagnose.explain import explain
from optrace.diagnose.findings import Cause, Error, ErrorFigures, Evidence, Finding, Kind, Spread, Warn
from optrace.diagnose.forced import Forced
from optrace.diagnose.hidden import differing_weights, hidden_calls
from optrace.diagnose.merge import merged
from optrace.diagnose.outcome import raised, reshaped_outputs
from optrace.diagnose.precision import other_precision
from optrace.diagnose.region import culprit
from optrace.diagnose.repair import Hypothesis
from optrace.diagnose.results import differing_results, ended_early
from optrace.diagnose.rounding import same_function
from optrace.diagnose.warn import code_differences
from optrace.errors import ComparisonError
from optrace.trace.model import Trace
from optrace.trace.records import Call, tensors_in

# A port with more independent mistakes than this is not a port yet.
MOST_FINDINGS = 60
_log = logging.getLogger(__name__)
# Of several places where trouble may have begun, this many are looked into at a time.
MOST_ROOTS = 6


class Comparison:
    """One comparison of two traces that hold values."""

    def __init__(self, base: Trace, raw: Trace, rtol: float | None = None, atol: float | None = None) -> None:
        self.base_trace, self.raw_trace = base, raw
        self.base, self.raw = Graph(base), Graph(raw)
        if not self.base.nodes or not self.raw.nodes:
            side = "base" if not self.base.nodes else "raw"
            raise ComparisonError(
                f"the {side} trace holds no framework call that could be compared; run the model inside the trace"
            )
        self.index = ValueIndex(self.base)
        self.outputs = self._outputs()
        self.forced = Forced(self.base, self.raw, self.index, self.outputs)
        self.findings: list[Finding] = []
        self.claimed: set[int] = set()
        self.skipped: set[int] = set()
        self.expanded: set[int] = set()

    def run(self) -> tuple[list[Finding], list[Warn], Evidence]:
        check_comparable(self.forced)
        _log.info("%d calls of base against %d of raw", len(self.base.nodes), len(self.raw.nodes))
        self.forced.run()
        while len(self.findings) < MOST_FINDINGS and self._one_cause():
            pass
        warnings = self._hidden()
        self._ends()
        self.findings.sort(key=lambda f: f.raw.id if f.raw is not None else -1)
        if not self.findings:
            self.findings = differing_results(self.forced)
        self.findings += [] if any(f.raw and f.raw.error for f in self.findings) else ended_early(self.forced)
        self.findings += other_precision(self.forced)
        evidence = gather(self.forced)
        if not self.findings and not evidence.compared + evidence.grouped:
            raise ComparisonError(
                "no call of the two runs could be compared: the tensors are empty or can't be read"
            )
        return merged(self.findings), [*warnings, *code_differences(self.forced)], evidence

    def _outputs(self) -> frozenset[Key]:
        known = [r.key for r in tensors_in(self.raw_trace.outputs)]
        made = [k for k in known if k in self.raw.producer]
        return frozenset(made or self.raw.sinks())

    # -- one cause -------------------------------------------------------------------------------

    def _one_cause(self) -> bool:
        """Find, report and mend one cause; false when nothing is left to explain."""
        roots = [n for n in self.forced.roots() if n.index not in self.skipped]
        if not roots:
            return False
        if self._expand(roots):
            self.forced.run()
            return True
        tried: list[tuple[tuple[bool, int, bool, int], repair.Repairable]] = []
        for root in roots[:MOST_ROOTS]:
            found = repair.best(self.forced, root, frozenset(self.claimed))
            order = (not found.sure, len(found.region), self.forced.witnessed(root), root.index)
            tried.append((order, found))
        mended = min(tried, key=lambda t: t[0])[1]
        _log.debug("trouble begins at %d places; looking into %s", len(roots), mended.region[0].call.api)
        self._mend(mended)
        return True

    def _expand(self, roots: list[Node]) -> bool:
        """Open base's fused calls near where trouble begins; true when that brought new values."""
        reached = {k for r in roots for k in r.inputs}
        for node in self.raw.nodes:
            if not reached.isdisjoint(node.inputs):
                reached.update(k for k in node.outputs if not self.forced.matched(k))
        read = {b for k in reached for b in self.forced.base_keys(k)}
        opened = False
        for base in self.base.nodes:
            if base.index not in self.expanded and not read.isdisjoint(base.inputs):
                self.expanded.add(base.index)
                opened = expand(self.base, self.index, base.call) or opened
        return opened

    def _hidden(self) -> list[Warn]:
        """Findings that no output shows; what may be just another way of computing is a warning."""
        while len(self.findings) < MOST_FINDINGS:
            found = hidden_calls(self.forced)
            certain = next((h for h in found if h.certain), None)
            if certain is None:
                break
            self._report(certain.node, certain.raw_key, certain.base, certain.base_key, certain.cause)
            self._repair(
                Hypothesis(certain.node, certain.raw_key, certain.base, certain.base_key, "same call")
            )
        warnings = []
        for h in found:
            text = f"{h.cause.message}; what follows makes up for it in this run"
            warnings.append(Warn(text, h.base, h.node.call, h.cause.argument))
        for w in differing_weights(self.forced):
            text = f"parameter {w.parameter.path} differs from base's {w.counterpart.path}, without effect in this run"
            cause = Cause("weight", text, w.base, parameter=w.parameter.path)
            self._report(w.node, w.node.outputs[0], w.base, None, cause)
        return warnings

    def _ends(self) -> None:
        for node, key, base, base_key, cause in reshaped_outputs(self.forced):
            self._report(node, key, base, base_key, cause)
        for call, counterpart, text in raised(self.forced):
            kinds = {r.dtype for r in tensors_in(call.positional) + tensors_in(call.keyword)}
            kind: Kind = "dtype" if len(kinds) > 1 else "value"
            cast = "cast the arguments to one dtype before the call" if kind == "dtype" else ""
            self.findings.append(Finding(kind, text, _stage(call), counterpart, call, suggestion=cast))

    def _mend(self, found: repair.Repairable) -> None:
        verdict, region = found.verdict, found.region
        if verdict is None:
            first = region[0]
            self._report(first, first.outputs[0], None, None, _unlocated(first))
            self.skipped.update([first.index, *self.raw.descendants(first.index)])
            return
        h = verdict.hypothesis
        node, base = culprit(self.forced, region, h)
        if (
            node.index == h.node.index
            and base is not None
            and same_function(self.forced, node, h.raw_key, base, h.base_key)
        ):
            self._repair(h)
            return
        if base is None:
            cause = Cause("extra_op", f"{node.call.api} has no counterpart on the base side", None)
        else:
            cause = explain(self.forced, node, h.raw_key, base, h.base_key)
        if not self._continues(node):
            self._report(node, h.raw_key, base, h.base_key, cause)
            if base is not None and cause.kind in ("missing_op", "value", "weight", "order"):
                self._report_argument(node, h.raw_key, base, h.base_key)
        if base is not None:
            self.claimed.add(base.id)
        self._repair(h)

    def _report_argument(self, node: Node, raw_key: Key, base: Call, base_key: Key) -> None:
        """A second cause at the same call: even on what base's call reads, its arguments give another result."""
        mine, theirs = named_tensors(node.call), named_tensors(base)
        if len(mine) != len(theirs) or any(r.shape != b.shape for (_, r), (_, b) in zip(mine, theirs)):
            return
        saved = self.forced.env
        values = {r.key: self.base_trace.value(b) for (_, r), (_, b) in zip(mine, theirs)}
        self.forced.env = saved.over()
        self.forced.env.update({k: v for k, v in values.items() if v is not None})
        try:
            found = differing_arguments(
                self.forced, node, raw_key, base, self.base_trace.value(self.base.refs[base_key])
            )
            as_it_is = self.forced.rerun(node, {}).get(raw_key)
        finally:
            self.forced.env = saved
        wanted = self.base_trace.value(self.base.refs[base_key])
        if found is None or not found[1] or as_it_is is None or wanted is None:
            return
        if not agree(difference(wanted, as_it_is), str(as_it_is.dtype), self.forced.reduction(node)):
            self._report(node, raw_key, base, base_key, argument_cause(base, node.call, found[0]))

    def _continues(self, node: Node) -> bool:
        """Whether ``node`` reads, by way of values that are still wrong, one that was mended before.

        Then it is the rest of the earlier trouble (rearranged halves, say), not a cause of its own.
        """
        stack = [k for k in node.inputs if not self.forced.matched(k)]
        seen: set[Key] = set()
        while stack:
            key = stack.pop()
            if key in seen or key not in self.raw.producer:
                continue
            seen.add(key)
            for k in self.raw.nodes[self.raw.producer[key]].inputs:
                if k in self.forced.repairs:
                    return True
                if not self.forced.matched(k):
                    stack.append(k)
        return False

    def _repair(self, h: repair.Hypothesis) -> None:
        value = repair.as_raw(self.forced, h)
        assert value is not None
        self.forced.repairs[h.raw_key] = Repair(h.base_key, value)
        self.forced.env[h.raw_key] = value
        self.forced.matches.pop(h.raw_key, None)
        self.forced.run(h.node.index + 1)

    def _report(
        self, node: Node, raw_key: Key, base: Call | None, base_key: Key | None, cause: Cause
    ) -> None:
        wanted = None if base_key is None else self.base_trace.value(self.base.refs[base_key])
        dtype = self.raw.refs[raw_key].dtype
        observed = self.raw_trace.value(self.raw.refs[raw_key])
        reach = self.raw.descendants(node.index)
        ends = self.outputs.intersection(k for i in (node.index, *reach) for k in self.raw.nodes[i].outputs)
        self.findings.append(
            Finding(
                kind=cause.kind,
                message=cause.message,
                stage=_stage(node.call),
                base=cause.base if cause.base is not None else base,
                raw=cause.raw if cause.raw is not None else node.call,
                argument=cause.argument,
                parameter=cause.parameter,
                error=Error(
                    _figures(wanted, self.forced.own.get(raw_key), dtype), _figures(wanted, observed, dtype)
                ),
                differences=cause.differences,
                suggestion=cause.suggestion,
                spread=Spread(len(reach), bool(ends)),
                step=node.call.step,
            )
        )


def _stage(call: Call) -> Any:
    return call.phase if call.phase in ("forward", "loss", "backward", "optimizer") else "forward"


def _unlocated(node: Node) -> Cause:
    return Cause("value", f"from {node.call.api} on, nothing on the raw side equals a base value", None)


def _figures(base: np.ndarray | None, raw: np.ndarray | None, dtype: str) -> ErrorFigures | None:
    if base is None or raw is None:
        return None
    found: Difference = difference(base, raw, dtype)
    note = found.note
    if not note and base.size > 1 and (base.dtype.kind == "c") == (raw.dtype.kind == "c"):
        apart = int(
            np.count_nonzero(
                ~np.isclose(
                    as_float(base), as_float(raw), rtol=1e-5, atol=1e-6 * found.max_abs, equal_nan=True
                )
            )
        )
        note = f"{apart} of {base.size} elements differ"
    return ErrorFigures(*found[:4], note)
