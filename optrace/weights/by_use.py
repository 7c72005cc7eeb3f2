"""The uses of a model's parameters, read from a trace of one run."""

from __future__ import annotations

from typing import Any

from optrace.frameworks.base import Framework
from optrace.trace.model import Trace
from optrace.trace.records import Call, TensorRef, tensors_in
from optrace.weights import recurrent, roles
from optrace.weights.inventory import Inventory
from optrace.weights.uses import Use, canonical
from optrace.weights.views import View, moved

Key = tuple[int, int]


class UseReader:
    """Walks the calls of one trace and tells what each parameter is used for.

    ``uses`` is in the order of the calls; ``links`` says for every call that was looked at which
    tensors went in and came out, for the order by data flow. ``unread`` are sentences on weights of
    recurrent layers that their calls do not read.
    """

    def __init__(self, framework: Framework, trace: Trace, inventory: Inventory) -> None:
        self.framework = framework
        self.inventory = inventory
        self.uses: list[Use] = []
        self.links: list[tuple[int, list[Key], list[Key]]] = []
        self.unread: list[str] = []
        self._views: dict[Key, View] = {}
        self._touches = _touching(trace, inventory)
        for call in trace.children_of(-1):
            self._visit(call)

    # -- the walk --------------------------------------------------------------------------------

    def _visit(self, call: Call) -> None:
        if call.error is not None:
            return
        op = roles.op_name(call.api)
        inputs = tensors_in([call.positional, call.keyword])
        own = [ref for ref in inputs if self._view(ref) is not None]
        known = roles.spec(call.api, op)
        before = len(self.uses)
        if not own and call.id not in self._touches:
            pass
        elif known is not None:
            self._known(call, known)
        elif op in roles.MATMUL:
            self._matmul(call)
        elif op == "rmatmul":
            self._matmul(call, reverse=True)
        elif op == "einsum":
            self._einsum(call)
        elif op.lower() in roles.RECURRENT:
            self._recurrent(call, op.lower(), own)
        elif not (own and self._of_parameters(call, op, inputs, own)):
            if call.children:
                for child in call.children:
                    self._visit(child)
                return
            self._plain(call, op, inputs, own)
        self._link(call, inputs, before)

    def _link(self, call: Call, inputs: list[TensorRef], before: int) -> None:
        outputs = [r.key for r in tensors_in([call.outputs, call.mutated])]
        data = [r.key for r in inputs if self._view(r) is None]
        self.links.append((call.id, data, outputs))
        for place, use in enumerate(self.uses[before:], before):
            use.call, use.place = call.id, place
            use.source = use.source or next(iter(data), None)
            use.result = next(iter(outputs), None)
            use.module, use.module_type = call.module or "", call.module_type or ""

    # -- views -----------------------------------------------------------------------------------

    def _view(self, ref: TensorRef) -> View | None:
        found = self._views.get(ref.key)
        if found is None and ref.path is not None and ref.path in self.inventory:
            found = self._views[ref.key] = View((ref.path,), ref.shape)
        return found

    def _of_parameters(self, call: Call, op: str, inputs: list[TensorRef], own: list[TensorRef]) -> bool:
        """Whether the call makes a view: moves, joins or computes on parameters alone."""
        outputs = tensors_in(call.outputs)
        if not outputs or len(own) != len(inputs):
            return (
                op in roles.MOVES
                and op != "getitem"
                and bool(outputs)
                and self._moved(call, own[:1], outputs)
            )
        if op in roles.MOVES or op in roles.JOINING or op in roles.INDEXING:
            return self._moved(call, own, outputs)
        views = [self._view(r) for r in own]
        distinct = {v for v in views if v is not None}
        if len(distinct) == 1 and len(outputs) == 1 and outputs[0].shape == own[0].shape:
            view = next(iter(distinct))
            chained = View(view.names, view.shape, view.sources, view.replay, view.exact, (*view.chain, op))
            self._views[outputs[0].key] = chained
            return True
        names = tuple(dict.fromkeys(n for v in distinct for n in v.names))
        for ref in outputs:
            self._views[ref.key] = View(names, ref.shape, exact=False)
        return True

    def _moved(self, call: Call, own: list[TensorRef], outputs: list[TensorRef]) -> bool:
        views = [v for v in map(self._view, own) if v is not None]
        single = isinstance(call.outputs, TensorRef)
        cast = roles.op_name(call.api) in roles.CASTS
        for position, ref in enumerate(outputs):
            if cast:
                self._views[ref.key] = views[0]
            elif all(v.exact for v in views):
                made = moved(call, views, [r.key for r in own], None if single else position, ref.shape)
                self._views[ref.key] = made
            else:
                names = tuple(dict.fromkeys(n for v in views for n in v.names))
                self._views[ref.key] = View(names, ref.shape, exact=False)
        return True

    def _uses_of(self, view: View, role: str, perm: tuple[int, ...] | None) -> list[Use]:
        """One use of an exact view; of a computed one a use of each parameter in it, the largest first."""
        if view.exact:
            use = canonical(view, role, perm)
            use.partners = view.names
            return [use]
        found: list[Use] = []
        for name in sorted(view.names, key=lambda n: -_size(self.inventory[n].shape)):
            alone = View((name,), self.inventory[name].shape)
            use = canonical(alone, f"{role}/part", perm if alone.shape == view.shape else None)
            use.partners, use.part = view.names, len(found)
            found.append(use)
        return found

    # -- operations ------------------------------------------------------------------------------

    def _known(self, call: Call, known: roles.Spec) -> None:
        found: list[Use] = []
        given = [(r, a) for r, a in zip(known.positional, call.positional)]
        given += [(known.of(k), a) for k, a in call.keyword.items()]
        for role, argument in given:
            view = self._view(argument) if isinstance(argument, TensorRef) else None
            if view is None or role in ("ids", "-"):
                continue
            if role == "data":
                role = "token"
            # torch keeps [out, in] for F.linear only; addmm and paddle's linear are [in, out] already.
            turned = role == "matrix" and call.framework == "torch" and roles.op_name(call.api) == "linear"
            found.extend(self._uses_of(view, role, (1, 0) if turned else None))
        source = next((a.key for r, a in given if r in ("data", "ids") and isinstance(a, TensorRef)), None)
        order = {role: i for i, role in enumerate(roles.ORDER)}
        for use in sorted(found, key=lambda u: order.get(u.role.partition("/")[0], 99)):
            use.source = source
            self.uses.append(use)

    def _matmul(self, call: Call, reverse: bool = False) -> None:
        operands = [a for a in (*call.positional, *call.keyword.values()) if isinstance(a, TensorRef)][:2]
        flags = [bool(f) for f in call.positional[2:4]]
        flags += [False] * (2 - len(flags))
        turned = [
            bool(call.keyword.get("transpose_x", flags[0])),
            bool(call.keyword.get("transpose_y", flags[1])),
        ]
        if reverse:
            operands.reverse()
        for side, ref in enumerate(operands):
            view = self._view(ref)
            if view is None:
                continue
            axes = list(range(len(view.shape)))
            # x @ W holds [in, out]; W @ x holds [out, in].
            if len(axes) >= 2 and turned[side] != (side == 0):
                axes[-2:] = axes[-1], axes[-2]
            self.uses.extend(self._uses_of(view, "matrix", tuple(axes)))

    def _einsum(self, call: Call) -> None:
        refs = tensors_in(call.positional)
        equation = call.positional[0] if call.positional else call.keyword.get("equation", "")
        left, _, right = str(equation).replace(" ", "").partition("->")
        terms = left.split(",")
        for i, ref in enumerate(refs):
            view = self._view(ref)
            if view is None:
                continue
            letters = terms[i] if i < len(terms) else ""
            if "." in letters or len(letters) != len(view.shape):
                self.uses.extend(self._uses_of(view, "other:einsum", None))
                continue
            kept = [letters.index(c) for c in right if c in letters]
            summed = [
                letters.index(c)
                for t in terms[:i] + terms[i + 1 :]
                for c in t
                if c in letters and c not in right
            ]
            summed = list(dict.fromkeys(summed))
            perm = (*summed, *kept)
            found = self._uses_of(
                view, "matrix" if summed else "scale", perm if len(perm) == len(letters) else None
            )
            for use in found:
                if use.role == "matrix" and len(perm) == len(letters):
                    rows = _size(view.shape[a] for a in summed)
                    use.shape = (rows, _size(view.shape[a] for a in kept))
            self.uses.extend(found)

    def _recurrent(self, call: Call, op: str, own: list[TensorRef]) -> None:
        found: list[Use] = []
        filled: dict[str, str] = {}
        for ref in own:
            view = self._view(ref)
            if view is not None:
                part = recurrent.slot(view.names[0], not op.endswith("cell"))
                filled[part] = view.names[0]
                # Both frameworks keep [gates, in].
                found.extend(
                    self._uses_of(view, f"recurrent:{part}", (1, 0) if len(view.shape) == 2 else None)
                )
        found.sort(key=lambda u: recurrent.order(u.role.partition(":")[2].partition("/")[0]))
        self.uses.extend(found)
        self.unread += recurrent.unread(call, op, self.inventory, filled)

    def _plain(self, call: Call, op: str, inputs: list[TensorRef], own: list[TensorRef]) -> None:
        """A call without children that joins parameters with data in a way of no known role."""
        role = roles.BINARY.get(op)
        if role is None:
            role = "token" if op in roles.JOINING else "table" if op in roles.INDEXING else f"other:{op}"
        for ref in own:
            view = self._view(ref)
            if view is not None:
                self.uses.extend(self._uses_of(view, role, None))


def _size(dims: Any) -> int:
    n = 1
    for d in dims:
        n *= d
    return n


def _touching(trace: Trace, inventory: Inventory) -> set[int]:
    """Calls that take a parameter themselves or hold one that does."""
    found: set[int] = set()
    for call in reversed(trace.calls):
        if call.id in found or any(
            r.path in inventory for r in tensors_in([call.positional, call.keyword]) if r.path
        ):
            found.add(call.id)
            if call.parent >= 0:
                found.add(call.parent)
    return found
