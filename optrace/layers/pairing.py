"""Which layer calls of two runs correspond."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from difflib import SequenceMatcher

from optrace.layers.closeness import Tolerance
from optrace.layers.records import LayerCall, LayerRun, Parameter

Pair = tuple[LayerCall, LayerCall]

# Prints of parameters are sums: equal values summed in another order agree to this.
_SAME = 1e-6
# Classes whose names differ for more than case and the letter of their dimensions.
_GENERIC = frozenset({"sequential", "layerlist", "modulelist"})
_ALIASES = {"multiheadattention": "attention", "simplernn": "rnn", "identity": "identity"}


def pair(base: LayerRun, raw: LayerRun, layer_map: Iterable[tuple[str, str]] = ()) -> list[Pair]:
    """Pairs of calls in base's order, the models themselves first.

    In this order: what the layer map says; layers that hold the same parameters; between those, layers of
    the same class, parameter shapes and output shapes in the same order; layers around the same layers.
    A layer without a counterpart is in no pair.
    """
    return _Pairing(base, raw, layer_map).run()


class _Pairing:
    def __init__(self, base: LayerRun, raw: LayerRun, layer_map: Iterable[tuple[str, str]]) -> None:
        self.base, self.raw = list(base.walk()), list(raw.walk())
        self.roots = list(zip(base.roots, raw.roots))
        self.layer_map = list(layer_map) or list(zip(base.layer_map, raw.layer_map))
        self.found: dict[int, LayerCall] = {}
        self.taken: set[int] = set()

    def run(self) -> list[Pair]:
        for a, b in self.roots:
            self._add(a, b)
        for first, second in self.layer_map:
            self._add_in_order(
                [c for c in self.base if c.name == first], [c for c in self.raw if c.name == second]
            )
        self._same_parameters()
        self._between()
        self._around()
        return [(c, self.found[id(c)]) for c in self.base if id(c) in self.found]

    def _add(self, base: LayerCall, raw: LayerCall) -> None:
        if id(base) not in self.found and id(raw) not in self.taken:
            self.found[id(base)] = raw
            self.taken.add(id(raw))

    def _add_in_order(self, base: Sequence[LayerCall], raw: Sequence[LayerCall]) -> None:
        for a, b in zip(base, raw):
            self._add(a, b)

    def _free(self) -> tuple[list[LayerCall], list[LayerCall]]:
        return (
            [c for c in self.base if id(c) not in self.found],
            [c for c in self.raw if id(c) not in self.taken],
        )

    def _same_parameters(self) -> None:
        """Layers whose parameters hold the same values; where several do, as many on each side in order."""
        base, raw = self._free()
        groups: list[tuple[list[Parameter], tuple[list[LayerCall], list[LayerCall]]]] = []
        index: dict[Hashable, list[int]] = defaultdict(list)
        for side, calls in ((0, base), (1, raw)):
            for call in calls:
                if not call.owned:
                    continue
                parameters = _sorted(call)
                near = [i for i in index[_shape(call)] if _alike(groups[i][0], parameters)]
                if not near:
                    near = [len(groups)]
                    index[_shape(call)].append(len(groups))
                    groups.append((parameters, ([], [])))
                groups[near[0]][1][side].append(call)
        for _, (mine, theirs) in groups:
            if len(mine) == len(theirs):
                self._add_in_order(mine, theirs)

    def _between(self) -> None:
        """The longest common sequence of what is left, held in place by the pairs there are already."""
        number = {id(a): n for n, a in enumerate(self.base) if id(a) in self.found}
        place = {id(self.found[key]): n for key, n in number.items()}

        def tokens(calls: list[LayerCall], known: dict[int, int]) -> list[Hashable]:
            # Containers are alike in what they hold only, see ``_around``.
            return [known.get(id(c), id(c) if c.children else _likeness(c)) for c in calls]

        ours, theirs = tokens(self.base, number), tokens(self.raw, place)
        for block in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
            for k in range(block.size):
                self._add(self.base[block.a + k], self.raw[block.b + k])
        left: dict[Hashable, tuple[list[LayerCall], list[LayerCall]]] = {}
        for side, calls in enumerate(self._free()):
            for call in calls:
                if not call.children:
                    left.setdefault(_likeness(call), ([], []))[side].append(call)
        for mine, others in left.values():
            if len(mine) == len(others):
                self._add_in_order(mine, others)

    def _around(self) -> None:
        """Containers that hold each other's counterparts, of one class or with one result.

        What a container does besides calling its layers is its own: equal contents alone say little.
        """
        base, raw = self._free()
        by_content: dict[frozenset[int], list[LayerCall]] = defaultdict(list)
        for call in raw:
            content = frozenset(id(c) for c in call.walk() if id(c) in self.taken)
            if content:
                by_content[content].append(call)
        for call in base:
            inside = [self.found[id(c)] for c in call.walk() if id(c) in self.found]
            for other in by_content.get(frozenset(map(id, inside)), []):
                if id(other) not in self.taken and _outputs(call) == _outputs(other) and _one(call, other):
                    self._add(call, other)
                    break


def kind(name: str) -> str:
    """A layer's class as both frameworks may spell it: ``Conv2D`` and ``Conv2d`` are one."""
    plain = re.sub(r"_", "", name).lower()
    return _ALIASES.get(plain, plain)


def _one(base: LayerCall, raw: LayerCall) -> bool:
    """Whether two containers do the same, by their class or by what came out."""
    if kind(base.kind) == kind(raw.kind) and kind(base.kind) not in _GENERIC:
        return True
    return all(Tolerance().agree(a, b) for a, b in zip(base.outputs, raw.outputs))


def _outputs(call: LayerCall) -> tuple[tuple[int, ...], ...]:
    return tuple(a.shape for a in call.outputs)


def _shape(call: LayerCall) -> Hashable:
    return tuple(sorted(tuple(sorted(p.shape)) for p in call.owned.values()))


def _likeness(call: LayerCall) -> Hashable:
    return ("like", kind(call.kind), _shape(call), _outputs(call))


def _sorted(call: LayerCall) -> list[Parameter]:
    return sorted(call.owned.values(), key=lambda p: (sorted(p.shape), p.print[1]))


def _alike(first: list[Parameter], second: list[Parameter]) -> bool:
    return all(
        abs(a - b) <= _SAME * max(p.print[1], q.print[1], 1e-30)
        for p, q in zip(first, second)
        for a, b in zip(p.print, q.print)
    )
