"""The records a trace is made of: tensors by reference, calls, source sites."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from optrace.trace.model import Trace


class Fingerprint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A fixed-size summary of one tensor's values, equal on both frameworks for equal values.

    ``sketch`` is linear in the values (random signs), so the distance between two tensors of one
    shape is estimated by the distance between their sketches. The other fields do not depend on
    the layout. All are computed over the finite elements, in float64.
    """

    sketch: tuple[float, ...]
    mean: float
    rms: float
    abs_mean: float
    minimum: float
    maximum: float
    non_finite: int
    count: int


class TensorRef(msgspec.Struct, frozen=True, tag="T", omit_defaults=True, gc=False):
    """One value of one tensor: object ``uid`` as of in-place ``version``.

    ``dtype`` is the name both frameworks share (``"float32"``, ``"bfloat16"``, ``"bool"``);
    ``strides`` and ``offset`` count elements; ``path`` is the parameter's or buffer's name in its
    root module, ``None`` for other tensors.
    """

    uid: int
    version: int
    shape: tuple[int, ...]
    dtype: str
    device: str = "cpu"
    strides: tuple[int, ...] | None = None
    offset: int = 0
    storage: int = 0
    requires_grad: bool = False
    path: str | None = None

    @property
    def key(self) -> tuple[int, int]:
        return (self.uid, self.version)

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for d in self.shape:
            n *= d
        return n


class Opaque(msgspec.Struct, tag="O"):
    """An argument that is neither tensor, number, string nor container: its type and a short text.

    The live object is kept only in memory (``obj``), never written.
    """

    type_name: str
    text: str = ""
    obj: Any = None


class DtypeRef(msgspec.Struct, frozen=True, tag="D", gc=False):
    """A framework dtype given as an argument, by its shared name."""

    name: str


class Site(msgspec.Struct, frozen=True, gc=False):
    """The user's source line that led to a call. ``text`` is the line as it was then."""

    file: str
    line: int
    function: str
    text: str | None = None

    @property
    def short(self) -> str:
        """``"model.py:12"``."""
        return f"{self.file.replace(chr(92), '/').rpartition('/')[2]}:{self.line}"

    @property
    def code(self) -> str:
        """The text of the line, empty when the file can't be read."""
        if self.text is not None:
            return self.text
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Call(msgspec.Struct, dict=True, weakref=True, eq=False):
    """One invocation of a public framework API.

    ``id`` is the position in the trace; ``parent`` the id of the enclosing recorded call or ``-1``;
    ``phase`` is ``"forward"``, ``"loss"``, ``"backward"``, ``"recompute"``, ``"optimizer"`` or ``"data"``;
    ``random`` says that a generator's state moved during the call (watched for what can draw), ``draw`` is
    the keep mask it drew or was given, ``seeded`` whether the program had seeded the generator; ``error`` holds the exception
    text when the call raised; ``via`` is the C-level function that was called where no public call
    encloses it (``api`` then names the public function that does its job); ``owner`` is the trace and not stored; ``mutated`` lists the arguments changed in place, as they were afterwards.
    """

    id: int
    api: str
    framework: str
    positional: list[Any]
    keyword: dict[str, Any]
    outputs: Any = None
    site: Site | None = None
    module: str | None = None
    module_type: str | None = None
    parent: int = -1
    phase: str = "forward"
    step: int = 0
    thread: int = 0
    inplace: bool = False
    mutated: list[TensorRef] = msgspec.field(default_factory=list)
    random: bool = False
    error: str | None = None
    context: tuple[str, ...] = ()
    via: str | None = None
    draw: TensorRef | None = None
    seeded: bool = False
    owner: Any = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Call):
            return NotImplemented
        return all(getattr(self, f) == getattr(other, f) for f in self.__struct_fields__ if f != "owner")

    __hash__ = object.__hash__

    @property
    def trace(self) -> Trace:
        """The trace this call belongs to."""
        return self.owner

    @property
    def args(self) -> dict[str, Any]:
        """Arguments by canonical parameter name, those left at their default not listed."""
        return self.trace.bind(self)

    @property
    def children(self) -> list[Call]:
        """The calls made directly inside this one."""
        return self.trace.children_of(self.id)


def line_of(call: Call) -> str:
    """Where a call stands, for a sentence: ``"model.py:12"``."""
    return call.site.short if call.site else "unknown line"


def tensors_in(tree: Any) -> list[TensorRef]:
    """Every ``TensorRef`` in an argument tree, in order of appearance."""
    found: list[TensorRef] = []
    stack = [tree]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is TensorRef:
            found.append(item)
        elif kind is list or kind is tuple:
            stack.extend(reversed(item))
        elif kind is dict:
            stack.extend(reversed(item.values()))
    return found
