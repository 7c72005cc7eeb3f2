"""Which use of the one model corresponds to which use of the other: a sequence alignment."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from dataclasses import dataclass, field

from optrace.weights.recurrent import alike
from optrace.weights.roles import STATISTICS
from optrace.weights.uses import Use

_GAP = -1.5
# Sequences beyond this many cells are cut at stretches that can only correspond one way.
_CELLS = 4_000_000
_NEVER = float("-inf")


@dataclass
class Matching:
    """Pairs of uses that fit, pairs that stand in the same place but do not fit, and the rest."""

    pairs: list[tuple[Use, Use]] = field(default_factory=list)
    misfits: list[tuple[Use, Use]] = field(default_factory=list)
    base_only: list[Use] = field(default_factory=list)
    raw_only: list[Use] = field(default_factory=list)
    score: float = 0.0


_VECTORS = frozenset({"scale", "shift"})
_ROWS = frozenset({"table", "token", "shift"})


def fits(base: Use, raw: Use) -> bool:
    """Whether the values of the one can be stored in the other."""
    if base.size != raw.size:
        # A run may need only the first rows of a table of positions.
        return base.role in _ROWS and raw.role in _ROWS and base.view.whole == raw.view.whole is not None
    if base.squeezed == raw.squeezed:
        return True
    if {base.role, raw.role} == {"conv", "matrix"}:
        conv, matrix = (base, raw) if base.role == "conv" else (raw, base)
        return conv.plain and matrix.plain and len(matrix.shape) == 2 and conv.shape[0] == matrix.shape[1]
    if base.role == raw.role:
        return base.role in _VECTORS and 1 in (len(base.squeezed), len(raw.squeezed))
    return "matrix" not in (base.role, raw.role)


@functools.lru_cache(maxsize=65536)
def _words(name: str) -> tuple[frozenset[str], tuple[str, ...]]:
    parts = re.split(r"[._]|(?<=[a-z])(?=[A-Z0-9])", name)
    return frozenset(p.lower() for p in parts if p), tuple(re.findall(r"\d+", name))


_SYNONYMS = (
    frozenset({"q", "query"}),
    frozenset({"k", "key"}),
    frozenset({"v", "value"}),
    frozenset({"gamma", "weight", "scale"}),
    frozenset({"beta", "bias", "shift"}),
    frozenset({"var", "variance"}),
)


@functools.lru_cache(maxsize=262144)
def likeness(base: str, raw: str) -> float:
    """How alike two names are, 0 to 1: shared words, synonyms, the same numbers."""
    a, numbers_a = _words(base)
    b, numbers_b = _words(raw)
    if not a or not b:
        return 0.0
    shared = len(a & b) + sum(0.75 for s in _SYNONYMS if a & s and b & s and not a & b & s)
    return 0.7 * shared / max(len(a), len(b)) + (0.3 if numbers_a == numbers_b else 0.0)


_RELATED = {
    frozenset({"shift", "token"}): 2.0,
    frozenset({"shift", "table"}): 2.0,
    frozenset({"token", "table"}): 2.0,
    frozenset({"scale", "slope"}): 1.0,
    frozenset({"conv", "matrix"}): 1.5,
    frozenset({"mean", "minus"}): 2.0,
    frozenset({"mean", "shift"}): 0.5,
    frozenset({"minus", "shift"}): 0.5,
    frozenset({"divisor", "scale"}): 0.5,
    frozenset({"variance", "shift"}): 0.5,
    frozenset({"variance", "divisor"}): 2.0,
    frozenset({"variance", "scale"}): 1.0,
}


def _role_score(base: str, raw: str) -> float:
    if base == raw:
        return 3.0
    if base.startswith("recurrent:") and raw.startswith("recurrent:"):
        return 3.0 * alike(base[10:], raw[10:]) or _NEVER
    if base.startswith("recurrent:") or raw.startswith("recurrent:"):
        local = (base if base.startswith("recurrent:") else raw).partition(":")[2]
        other = raw if base.startswith("recurrent:") else base
        return 1.0 if other == ("matrix" if local.startswith("weight") else "shift") else _NEVER
    if base.endswith("/part") != raw.endswith("/part"):
        # One side computes with the parameter first (a folded norm): the names have to tell.
        return 0.25
    found = _RELATED.get(frozenset({base, raw}))
    if found is not None:
        return found
    unknown = [r for r in (base, raw) if r.startswith("other:")]
    return 0.25 if unknown and "other:magnitude" not in unknown else _NEVER


def score(base: Use, raw: Use) -> float:
    """What pairing two uses is worth; negative for a misfit, which may still beat two gaps."""
    role = _role_score(base.role, raw.role)
    if role == _NEVER:
        return _NEVER
    if base.buffer != raw.buffer and not {base.role, raw.role} & STATISTICS:
        role -= 2.0
    if not fits(base, raw):
        # A misfit is worth naming only between two of a kind.
        return -1.0 + 0.5 * likeness(base.name, raw.name) if base.role == raw.role and role >= 3.0 else _NEVER
    same = 1.0 if base.shape == raw.shape else 0.5
    chain = 0.2 if base.view.chain == raw.view.chain else 0.0
    return role + same + likeness(base.name, raw.name) + chain + 0.3 * _common(base.signature, raw.signature)


def _common(base: tuple[str, ...], raw: tuple[str, ...]) -> int:
    """How many of the next computations are the same."""
    return next((i for i, (a, b) in enumerate(zip(base, raw)) if a != b), min(len(base), len(raw)))


def match(base: list[Use], raw: list[Use], by_name: bool = False) -> Matching:
    """The best alignment that keeps both orders, then leftovers that fit regardless of order.

    Among equals, what comes first is paired first. ``by_name`` pairs equal
    names where both sides have the same.
    """
    found = Matching()
    if by_name and (named := _same_names(base, raw)) is not None:
        pairs = named
    elif len(base) == len(raw) and all(_same(a, b) for a, b in zip(base, raw)):
        pairs = [(i, i) for i in range(len(base))]
    else:
        pairs = _align(base, raw)
    for i, j in pairs:
        (found.pairs if fits(base[i], raw[j]) else found.misfits).append((base[i], raw[j]))
        found.score += score(base[i], raw[j])
    taken_base, taken_raw = {i for i, _ in pairs}, {j for _, j in pairs}
    found.base_only = [u for i, u in enumerate(base) if i not in taken_base]
    found.raw_only = [u for j, u in enumerate(raw) if j not in taken_raw]
    _leftovers(found)
    _settle_siblings(found)
    found.score += _GAP * (len(found.base_only) + len(found.raw_only))
    return found


def _same_names(base: list[Use], raw: list[Use]) -> list[tuple[int, int]] | None:
    """Pairs by the words and numbers of the names, where every use has one such counterpart that fits."""
    found: dict[tuple[object, ...], list[list[int]]] = {}
    for side, uses in enumerate((base, raw)):
        for i, use in enumerate(uses):
            found.setdefault((_words(use.name), use.role), [[], []])[side].append(i)
    pairs = [pair for left, right in found.values() for pair in zip(left, right)]
    if any(len(left) != len(right) for left, right in found.values()):
        return None
    return sorted(pairs) if all(_same(base[i], raw[j]) for i, j in pairs) else None


def _same(a: Use, b: Use) -> bool:
    return a.role == b.role and a.squeezed == b.squeezed and a.buffer == b.buffer


def _align(base: list[Use], raw: list[Use]) -> list[tuple[int, int]]:
    n, m = len(base), len(raw)
    # Ends that can only correspond one way need no table.
    head = 0
    while (
        head < min(n, m) and _same(base[head], raw[head]) and likeness(base[head].name, raw[head].name) > 0.9
    ):
        head += 1
    if n * m > _CELLS and head == 0:
        while head < min(n, m) and _same(base[head], raw[head]):
            head += 1
    rest = _table(base[head:], raw[head:])
    return [(i, i) for i in range(head)] + [(i + head, j + head) for i, j in rest]


def _table(base: list[Use], raw: list[Use]) -> list[tuple[int, int]]:
    n, m = len(base), len(raw)
    best = [[0.0] * (m + 1) for _ in range(n + 1)]
    pair: list[list[float]] = []
    for j in range(m - 1, -1, -1):
        best[n][j] = best[n][j + 1] + _gap(raw[j])
    for i in range(n - 1, -1, -1):
        row, below = best[i], best[i + 1]
        gap = _gap(base[i])
        row[m] = below[m] + gap
        worth = [score(base[i], r) for r in raw]
        pair.append(worth)
        for j in range(m - 1, -1, -1):
            row[j] = max(below[j + 1] + worth[j], below[j] + gap, row[j + 1] + _gap(raw[j]))
    pair.reverse()
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < n and j < m:
        if best[i][j] == best[i + 1][j + 1] + pair[i][j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j] + _gap(base[i]):
            i += 1
        else:
            j += 1
    return found


def _gap(use: Use) -> float:
    """Buffers that hold constants have no counterpart as a rule."""
    return -0.05 if use.buffer and use.role not in STATISTICS else _GAP


def _leftovers(found: Matching) -> None:
    """Pair what the order kept apart: kindred roles, the best first; or the only ones of a shape."""
    sizes = Counter(
        (side, u.squeezed) for side, uses in enumerate((found.base_only, found.raw_only)) for u in uses
    )
    options = [
        (score(b, r), -i, -j, b, r)
        for i, b in enumerate(found.base_only)
        for j, r in enumerate(found.raw_only)
        if fits(b, r)
        and (_role_score(b.role, r.role) >= 1.0 or (_role_score(b.role, r.role) > 0 and _alone(sizes, b, r)))
    ]
    options.sort(key=lambda o: o[:3], reverse=True)
    for worth, _, _, b, r in options:
        if any(b is u for u in found.base_only) and any(r is u for u in found.raw_only):
            found.pairs.append((b, r))
            found.score += worth - 0.5
            found.base_only = [u for u in found.base_only if u is not b]
            found.raw_only = [u for u in found.raw_only if u is not r]


def _alone(sizes: Counter[tuple[int, tuple[int, ...]]], base: Use, raw: Use) -> bool:
    """Whether nothing else on either side has this shape."""
    return base.squeezed == raw.squeezed and sizes[0, base.squeezed] == sizes[1, raw.squeezed] == 1


def _settle_siblings(found: Matching) -> None:
    """Give calls on one and the same input the partners whose results are consumed alike.

    Such calls may run in any order. They change places only where that makes the consumers agree better.
    """
    partner: dict[int, set[int]] = {}
    for base, raw in found.pairs:
        partner.setdefault(raw.call, set()).add(base.call)
    runs: dict[object, list[tuple[Use, Use]]] = {}
    for base, raw in found.pairs:
        single = partner[raw.call] == {base.call} and not raw.widths and not base.widths
        if not (single and base.role == raw.role and base.signature and raw.signature):
            continue
        if base.source is not None and raw.source is not None:
            run = runs.setdefault((base.source, raw.source, base.role, base.shape), [])
            if all(u.call != base.call for u, _ in run):
                run.append((base, raw))
    moved: dict[int, int] = {}
    for run in runs.values():
        if 1 < len(run) <= 6 and not any(raw.call in moved for _, raw in run):
            best = max(itertools.permutations(range(len(run))), key=lambda order: _alike(run, order))
            if _alike(run, best) > _alike(run, tuple(range(len(run)))):
                moved.update({raw.call: run[i][0].call for (_, raw), i in zip(run, best)})
    if moved:
        by_call: dict[int, list[Use]] = {}
        for base, _ in found.pairs:
            by_call.setdefault(base.call, []).append(base)
        found.pairs = [
            (_of_role(by_call[moved[r.call]], b, r) if r.call in moved else b, r) for b, r in found.pairs
        ]


def _alike(run: list[tuple[Use, Use]], order: tuple[int, ...]) -> float:
    return sum(_common(run[i][0].signature, raw.signature) for (_, raw), i in zip(run, order))


def _of_role(uses: list[Use], before: Use, raw: Use) -> Use:
    return next((u for u in uses if u.role == before.role and fits(u, raw)), before)
