"""Builds traces and reports by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from optrace.align.correspondence import Correspondence, Repair
from optrace.align.graph import Graph
from optrace.report.model import Report
from optrace.trace.model import Trace
from optrace.trace.records import Call, Site, TensorRef


def trace_of(framework: str, api: str, site: Site, **arguments: Any) -> Trace:
    trace = Trace("full")
    trace.meta["versions"] = {framework: "1.2.3"}
    x = TensorRef(1, 0, (2, 3), "float32")
    trace.append(
        Call(0, api, framework, [x], arguments, x, site, module="encoder.0.norm", module_type="LayerNorm")
    )
    return trace


def linked(report: Report, pairs: dict[int, int]) -> Report:
    """``report`` with an alignment in which raw's calls stand for base's, by number."""
    base, raw = Graph(report.base), Graph(report.raw)
    links = Correspondence(base, raw, frozenset(raw.sinks()))
    for theirs, mine in pairs.items():
        key = base.nodes[mine].outputs[0]
        links.repairs[raw.nodes[theirs].outputs[0]] = Repair(key, np.zeros(1))
    report.alignment = links
    return report


def chain(framework: str, apis: list[str], site: Site) -> Trace:
    """A trace in which each call reads what the one before made."""
    trace = Trace("full")
    for i, api in enumerate(apis):
        value, made = (TensorRef(uid, 0, (2, 3), "float32") for uid in (i, i + 1))
        trace.append(Call(i, api, framework, [value], {}, made, site))
    return trace
