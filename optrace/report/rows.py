"""The two traces side by side: which call of base faces which call of raw, and how they compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from optrace.align.correspondence import Correspondence
from optrace.ops import same_job
from optrace.report import text as words
from optrace.trace.records import Call

if TYPE_CHECKING:
    from optrace.align.graph import Node
    from optrace.report.model import Report

STATES = {
    "cause": "cause of a difference",
    "equal": "agrees",
    "reached": "agrees given base's inputs, reached by an error",
    "group": "inside a group that agrees",
    "raw": "raw only",
    "base": "base only",
    "beyond": "beyond comparison",
}


class Facing(NamedTuple):
    """One row: a call of raw, of base, or both."""

    state: str
    base: Call | None
    raw: Call | None


def facing(report: Report) -> list[Facing]:
    """Raw's calls in order, each with the base call it corresponds to; base's others between them."""
    links = report.alignment
    if not isinstance(links, Correspondence):
        return []
    causes = {id(f.raw) for f in report.findings if f.raw is not None}
    partners = [_partner(links, node) for node in links.raw.nodes]
    paired = {partner.index for partner in partners if partner is not None}
    fine = links.accounted()
    nodes = [n.index for n in links.raw.nodes if id(n.call) in causes]
    reached = {i for index in nodes for i in links.raw.descendants(index)}
    rows: list[Facing] = []
    done = 0
    for node, partner in zip(links.raw.nodes, partners):
        if partner is not None and partner.index >= done:
            between = links.base.nodes[done : partner.index]
            rows += [Facing("base", n.call, None) for n in between if n.index not in paired]
            done = partner.index + 1
        if id(node.call) in causes:
            state = "cause"
        elif node.index in links.unreplayable:
            state = "beyond"
        elif partner is not None:
            state = "reached" if node.index in reached else "equal"
        else:
            state = "group" if all(fine.get(key, True) for key in node.outputs) else "raw"
        rows.append(Facing(state, partner.call if partner is not None else None, node.call))
    rest = links.base.nodes[done:]
    return rows + [Facing("base", n.call, None) for n in rest if n.index not in paired]


def _partner(links: Correspondence, node: Node) -> Node | None:
    """The base call that made the value which ``node``'s first matched output stands for."""
    for key in node.outputs:
        makers = [links.base.producer[k] for k in links.base_keys(key) if k in links.base.producer]
        if makers:
            # Of several equal values, the one of a like call, made at about this place.
            nodes, api = links.base.nodes, node.call.api
            return nodes[
                min(makers, key=lambda i: (not same_job(nodes[i].call.api, api), abs(i - node.index), i))
            ]
    return None


def packed(rows: list[Facing]) -> dict[str, Any]:
    """Rows as numbers into one list of texts, small enough for a page with 100,000 of them."""
    texts: dict[str, int] = {}

    def at(content: str) -> int:
        return texts.setdefault(words.clean(content), len(texts))

    def side(call: Call | None) -> list[int]:
        if call is None:
            return []
        return [call.id, at(call.api), at(call.module or ""), at(words.place(call.site))]

    states = list(STATES)
    body = [[states.index(row.state), side(row.base), side(row.raw)] for row in rows]
    return {"states": states, "labels": list(STATES.values()), "rows": body, "texts": list(texts)}
