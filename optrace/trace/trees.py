"""Argument trees and results as they go into a record: tensors become references, strange things texts."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from optrace.frameworks.base import Framework, is_a
from optrace.frameworks.views import Quick, quick
from optrace.trace.arguments import MAX_DEPTH, MAX_ITEMS, name_of, plain, text_of
from optrace.trace.identity import Identities
from optrace.trace.model import Trace
from optrace.trace.records import DtypeRef, Opaque, TensorRef

if TYPE_CHECKING:
    from optrace.trace.recorder import ThreadState

# Recorded as they are.
SIMPLE = frozenset({type(None), bool, int, float, str})
_PLAIN = (bool, int, float, str, complex, np.generic)


class Trees:
    """Records of one trace's values. Everything here is called in ``framework.aside()``.

    ``made`` is told of every tensor that a gradient may reach.
    """

    def __init__(
        self,
        trace: Trace,
        frameworks: list[Framework],
        thread: ThreadState,
        made: Callable[[Framework, Any, TensorRef], None],
    ) -> None:
        self.identities = Identities()
        self.epoch = 0  # goes up where parameters may have changed unseen
        self._trace = trace
        self._frameworks = frameworks
        self._thread = thread
        self._made = made
        self._digests: dict[int, tuple[int, int]] = {}  # of named tensors: version and checksum
        self._keep_values = trace.level == "full"
        self._keep_stats = trace.level == "stats"

    def record(self, framework: Framework, obj: Any, inside: tuple[int, ...] = ()) -> Any:
        kind = type(obj)
        if kind in SIMPLE:
            return obj
        known = quick[framework.name]
        if kind in known.tensors or framework.is_tensor(obj):
            stamp = known.stamp(obj)
            if stamp is not None or framework.is_tensor(obj):
                return self._tensor(framework, known, obj, stamp)
        if kind is list or kind is tuple or is_a(obj, list) or is_a(obj, tuple) or is_a(obj, dict):
            return self._container(framework, obj, (*inside, id(obj)))
        if kind is slice:
            return slice(*(self.record(framework, o, inside) for o in (obj.start, obj.stop, obj.step)))
        for other in self._frameworks:
            if other is not framework and other.is_tensor(obj):
                return self.tensor(other, obj)
        dtype = framework.dtype_name(obj)
        if dtype is not None:
            return DtypeRef(dtype)
        if is_a(obj, np.ndarray):
            return self._trace.array(obj)
        try:
            if obj is Ellipsis or any(is_a(obj, base) for base in _PLAIN):
                return plain(obj)
        except Exception:  # a number or text of the program's own, which can't be read
            return Opaque(name_of(kind), text_of(obj), obj)
        return Opaque(name_of(kind), framework.unreadable(obj) or text_of(obj), obj)

    def tensor(self, framework: Framework, tensor: Any) -> TensorRef:
        """The reference to a tensor; its values are kept as the level asks for."""
        known = quick[framework.name]
        return self._tensor(framework, known, tensor, known.stamp(tensor))

    def changed(self, framework: Framework, refs: Any, live: Any) -> list[TensorRef]:
        """Of the tensors in ``live``, those that are no longer as ``refs`` has them: written to in place."""
        version, extra = quick[framework.name].version, self.identities.extra
        found = []
        for ref, tensor in zip(refs, live):
            if type(ref) is TensorRef and ref.uid > 0:
                now = version(tensor)
                if (now + extra.get(ref.uid, 0) if extra else now) != ref.version:
                    found.append(self.tensor(framework, tensor))
        return found

    def _tensor(self, framework: Framework, known: Quick, tensor: Any, stamp: Any) -> TensorRef:
        ref = self.identities.ref(tensor, stamp) if stamp is not None else None
        if ref is None or (ref.path is not None and self._keep_values):
            ref = self._describe(framework, known, tensor)
            if stamp is not None:
                self.identities.remember(tensor, stamp, ref)
        if self._keep_values:
            if not self._trace.holds(ref.key):
                self._trace.keep(ref, framework, tensor)
            if ref.requires_grad:
                self._made(framework, tensor, ref)
        elif self._keep_stats and ref.key not in self._trace.fingerprints:
            self._trace.summarise(ref, framework, tensor)
        return ref

    def _describe(self, framework: Framework, known: Quick, tensor: Any) -> TensorRef:
        identities = self.identities
        shape, dtype, device, strides, offset, storage, requires_grad = framework.info(tensor)
        uid, path = identities.uid(tensor), identities.path(tensor)
        if path is not None and self._keep_values and identities.due(uid, self.epoch):
            self._check_version(framework, known, tensor, uid)
        version = known.version(tensor) + identities.extra.get(uid, 0)
        return TensorRef(uid, version, shape, dtype, device, strides, offset, storage, requires_grad, path)

    def _check_version(self, framework: Framework, known: Quick, tensor: Any, uid: int) -> None:
        """A parameter or buffer may have been changed behind its version counter."""
        try:
            digest = zlib.crc32(framework.to_numpy(tensor).tobytes())
        except TypeError:
            return  # no readable values
        version = known.version(tensor) + self.identities.extra.get(uid, 0)
        before = self._digests.get(uid)
        if before is not None and before[0] == version and before[1] != digest:
            self.identities.refresh(uid)
            version += 1
        self._digests[uid] = (version, digest)

    def _container(self, framework: Framework, obj: Any, inside: tuple[int, ...]) -> Any:
        """What a list, tuple or dictionary holds; a placeholder for one that is cyclic, vast or broken."""
        thread = self._thread
        try:
            size = len(obj)
            too_much = (
                size > MAX_ITEMS or len(inside) > MAX_DEPTH or inside[-1] in inside[:-1] or size > thread.left
            )
            items = [] if too_much else list(obj.items() if is_a(obj, dict) else obj)
        except Exception as error:  # the program's own container fails
            return Opaque(name_of(type(obj)), f"<{type(error).__name__}>", obj)
        if too_much:
            return Opaque(name_of(type(obj)), f"{size} items", obj)
        thread.left -= size
        if is_a(obj, dict):
            return {k if type(k) is str else text_of(k): self.record(framework, v, inside) for k, v in items}
        found = [o if type(o) in SIMPLE else self.record(framework, o, inside) for o in items]
        return found if is_a(obj, list) else tuple(found)
