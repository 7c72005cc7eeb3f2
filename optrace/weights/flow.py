"""Orders of use: as executed, and as the data flows."""

from __future__ import annotations

import numpy as np

from optrace.frameworks.base import Framework
from optrace.trace.model import Trace
from optrace.trace.records import Call, TensorRef, tensors_in
from optrace.weights.by_use import Key, UseReader
from optrace.weights.roles import MOVES, op_name
from optrace.weights.uses import Use
from optrace.weights.views import repeat

_STEPS = 3
# Results larger than this are not followed element by element.
_LARGEST = 1 << 24
_SHARED_NAMES = {
    "swish": "silu", "multiply": "mul", "rmul": "mul", "truediv": "div", "divide": "div", "subtract": "sub",
    "bmm": "matmul", "mm": "matmul", "true_divide": "div", "concat": "cat", "radd": "add",
}  # fmt: skip


def _common_name(call: Call) -> str:
    name = op_name(call.api).lower().replace("_transpose", "").replace("conv_transpose", "conv")
    return _SHARED_NAMES.get(name, name)


class Flow:
    """The data flow around the uses of one trace."""

    def __init__(self, trace: Trace, reader: UseReader) -> None:
        self.trace = trace
        self.framework: Framework = reader.framework
        self._inputs = {call: data for call, data, _ in reader.links}
        self._producer: dict[Key, int] = {}
        self._consumers: dict[Key, list[int]] = {}
        for call, data, outputs in reader.links:
            for key in outputs:
                if key not in data:
                    self._producer.setdefault(key, call)
            for key in data:
                self._consumers.setdefault(key, []).append(call)
        self.rank = {call: i for i, call in enumerate(self._post_order())}
        self._uses_of: dict[int, list[Use]] = {}
        for use in reader.uses:
            self._uses_of.setdefault(use.call, []).append(use)
            use.signature = self._signature(use.result)

    def by_data(self, uses: list[Use]) -> list[Use]:
        """``uses`` in the order in which the outputs need them, a call's first operand first.

        The order does not depend on which of two independent branches ran first.
        """
        return sorted(uses, key=lambda u: self.rank[u.call])

    def _post_order(self) -> list[int]:
        roots = [self._producer[r.key] for r in tensors_in(self.trace.outputs) if r.key in self._producer]
        roots += [call for call in self._inputs if call not in roots]
        order: list[int] = []
        seen: set[int] = set()
        for root in roots:
            stack = [(root, False)]
            while stack:
                call, done = stack.pop()
                if done:
                    order.append(call)
                elif call not in seen:
                    seen.add(call)
                    stack.append((call, True))
                    before = [self._producer[k] for k in self._inputs[call] if k in self._producer]
                    stack.extend((b, False) for b in reversed(before) if b not in seen)
        return order

    def feeding(self, key: Key | None) -> list[Use]:
        """Uses whose result reaches ``key`` without passing through another use of a parameter."""
        found: list[Use] = []
        seen: set[int] = set()
        stack = [self._producer[key]] if key in self._producer else []
        while stack:
            call = stack.pop()
            if call in seen:
                continue
            seen.add(call)
            if call in self._uses_of:
                found.extend(self._uses_of[call])
            else:
                stack.extend(self._producer[k] for k in self._inputs[call] if k in self._producer)
        return found

    def _signature(self, key: Key | None) -> tuple[str, ...]:
        """The next few computations on the way of a result, by names that both frameworks share."""
        names: list[str] = []
        while key is not None and len(names) < _STEPS:
            number = self._next(key)
            if number is None:
                break
            call = self.trace.calls[number]
            if not self._is_move(call):
                names.append(_common_name(call))
            key = next((r.key for r in tensors_in(call.outputs)), None)
        return tuple(names)

    def _next(self, key: Key) -> int | None:
        """The consumer that is needed first."""
        return min(self._consumers.get(key, ()), key=lambda n: self.rank[n], default=None)

    def column_groups(self, use: Use, sizes: list[int]) -> list[np.ndarray] | None:
        """Which output columns of a fused ``use`` go together, in the order in which they are consumed.

        ``sizes`` are the numbers of columns wanted; int64 arrays of column numbers, or ``None`` when
        the moves behind the use do not cut its result that way.
        """
        groups = [g for g in self._groups(use) if len(g) in sizes]
        found = _cover(groups)
        return found if [len(g) for g in found] == sizes and sum(sizes) == use.shape[-1] else None

    def partition(self, use: Use) -> list[np.ndarray] | None:
        """The coarsest cut of the output columns into groups of one size; ``None`` when nothing cuts them."""
        groups = self._groups(use)
        for size in sorted({len(g) for g in groups}, reverse=True):
            found = _cover([g for g in groups if len(g) == size])
            if len(found) * size == use.shape[-1]:
                return found
        return None

    def _groups(self, use: Use) -> list[np.ndarray]:
        """Proper subsets of the output columns that moves make (int64), in the order of their consumers."""
        call = self.trace.calls[use.call]
        ref = next((r for r in tensors_in(call.outputs) if r.key == use.result), None)
        if ref is None or ref.size > _LARGEST:
            return []
        start = np.broadcast_to(np.arange(ref.shape[-1], dtype=np.int64), ref.shape)
        found: list[tuple[tuple[int, int], np.ndarray]] = []
        for key, array in self._moved_from(ref.key, np.array(start)).items():
            _, first = np.unique(array, return_index=True)
            group = array.reshape(-1)[np.sort(first)]
            if len(group) < ref.shape[-1]:
                found.append((self._first_need(key), group))
        found.sort(key=lambda item: item[0])
        return [group for _, group in found]

    def _is_move(self, call: Call) -> bool:
        """Whether the call only moves one tensor; joining it to an empty one (a fresh cache) counts."""
        op = op_name(call.api)
        if op in MOVES:
            return len(self._inputs[call.id]) == 1
        if op not in ("cat", "concat", "concatenate"):
            return False
        return sum(r.size > 0 for r in tensors_in([call.positional, call.keyword])) == 1

    def _moved_from(self, key: Key, array: np.ndarray) -> dict[Key, np.ndarray]:
        """Everything that moves alone make of ``array`` standing for the tensor ``key``."""
        known = {key: array}
        frontier = [key]
        while frontier:
            current = frontier.pop()
            for number in self._consumers.get(current, ()):
                call = self.trace.calls[number]
                if not self._is_move(call):
                    continue
                try:
                    results = repeat(call, {current: known[current]})
                except Exception:  # a move that will not run on integers tells nothing
                    continue
                outputs = [call.outputs] if isinstance(call.outputs, TensorRef) else tensors_in(call.outputs)
                for ref, result in zip(outputs, results if isinstance(results, list) else [results]):
                    if ref.key not in known:
                        known[ref.key] = result
                        frontier.append(ref.key)
        return known

    def _first_need(self, key: Key) -> tuple[int, int]:
        """Rank and operand of the first computing call behind ``key``."""
        best = (len(self.rank), 0)
        stack, seen = [key], {key}
        while stack:
            current = stack.pop()
            for number in self._consumers.get(current, ()):
                call = self.trace.calls[number]
                if self._is_move(call):
                    for ref in tensors_in(call.outputs):
                        if ref.key not in seen:
                            seen.add(ref.key)
                            stack.append(ref.key)
                else:
                    best = min(best, (self.rank[number], self._inputs[number].index(current)))
        return best


def _cover(groups: list[np.ndarray]) -> list[np.ndarray]:
    """The groups, in order, that share no column with an earlier one."""
    taken: list[np.ndarray] = []
    covered: set[int] = set()
    for group in groups:
        members = set(group.tolist())
        if not covered & members:
            taken.append(group)
            covered |= members
    return taken
