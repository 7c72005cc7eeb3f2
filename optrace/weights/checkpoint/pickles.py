"""Pickles as data: an unpickler that calls nothing it was not told of, and the few opcodes a writer needs."""

from __future__ import annotations

import collections
import pickle
import struct
from collections.abc import Callable, Iterable
from typing import IO, Any, ClassVar

import ml_dtypes
import numpy as np

from optrace.errors import ConversionError

_LONGEST_DTYPE = 20


# Whatever a malformed pickle makes of the machine that reads it.
_MALFORMED = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError,
    MemoryError, RecursionError, struct.error, AssertionError, ImportError,
)  # fmt: skip


class Unpickler(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """Knows the ``allowed`` callables by (module, name); anything else in the file is refused.

    ``storage`` resolves persistent ids. It is the unpickler written in Python, whose steps can be guarded:
    the one in C takes memory for what a few bytes announce, hashes keys that take for ever, and sets
    attributes of anything. ``load`` raises ``ConversionError`` only.
    """

    stack: list[Any]

    def __init__(
        self,
        file: IO[bytes],
        where: object,
        allowed: dict[tuple[str, str], Any],
        storage: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(file, encoding="latin1")
        self._where = where
        self._allowed = {**_PLAIN, **allowed}
        self._storage = storage

    def load(self) -> Any:
        try:
            return super().load()
        except _MALFORMED as error:
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise ConversionError(
                f"{self._where} is no checkpoint, or a damaged one ({what[:200]})"
            ) from error

    def find_class(self, module: str, name: str) -> Any:
        found = self._allowed.get((module, name))
        if found is None:
            raise ConversionError(
                f"{self._where} wants to use {module}.{name}, which weights have no need of; it was not "
                "read, because a pickle that calls functions can do anything. If you trust it, save its "
                "state dict again with safetensors"
            )
        return found

    def persistent_load(self, pid: Any) -> Any:
        if self._storage is None:
            raise ConversionError(f"{self._where} refers to data that it does not hold")
        return self._storage(pid)

    # -- guarded steps -----------------------------------------------------------------------------

    def _build(self) -> None:
        state, made = self.stack.pop(), self.stack[-1]
        if isinstance(made, (_Array, _Dtype)):
            made.__setstate__(state)
        elif not isinstance(made, collections.OrderedDict):  # a state dict's has metadata, of no use here
            raise ConversionError(f"{self._where} sets attributes of {type(made).__name__}")

    def _set_item(self) -> None:
        _keys([self.stack[-2]])
        pickle._Unpickler.load_setitem(self)  # type: ignore[attr-defined]

    def _set_items(self) -> None:
        _keys(self.stack[::2])
        pickle._Unpickler.load_setitems(self)  # type: ignore[attr-defined]

    def _dict(self) -> None:
        _keys(self.stack[::2])
        pickle._Unpickler.load_dict(self)  # type: ignore[attr-defined]

    def _add_items(self) -> None:
        _keys(self.stack)
        pickle._Unpickler.load_additems(self)  # type: ignore[attr-defined]

    def _frozen_set(self) -> None:
        _keys(self.stack)
        pickle._Unpickler.load_frozenset(self)  # type: ignore[attr-defined]

    dispatch: ClassVar[dict[int, Callable[..., Any]]] = {
        **pickle._Unpickler.dispatch,  # type: ignore[attr-defined]
        pickle.BUILD[0]: _build,
        pickle.SETITEM[0]: _set_item,
        pickle.SETITEMS[0]: _set_items,
        pickle.DICT[0]: _dict,
        pickle.ADDITEMS[0]: _add_items,
        pickle.FROZENSET[0]: _frozen_set,
    }


def _keys(items: Iterable[Any]) -> None:
    """Refuse keys but texts and numbers: tuples of tuples of one tuple take for ever to hash or to print."""
    for item in items:
        if item is not None and type(item) not in (str, bytes, int, float, bool):
            raise ConversionError(f"a pickle has a {type(item).__name__} as a key")


def _ordered_dict(items: Any = ()) -> collections.OrderedDict[Any, Any]:
    pairs = list(items.items() if isinstance(items, dict) else items)
    _keys(pair[0] for pair in pairs)
    return collections.OrderedDict(pairs)


def set_of(items: Any = ()) -> set[Any]:
    _keys(items)
    return set(items)


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise ConversionError(f"a pickle asks for the codec {encoding!r}")
    return text.encode("latin1")


def _dtype(name: Any, *_: Any) -> np.dtype:
    if isinstance(name, str) and len(name) <= _LONGEST_DTYPE:
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        if dtype.kind in "biufc" or hasattr(ml_dtypes, dtype.name):
            return dtype
    raise ConversionError(f"a pickle holds an array of {str(name)[:20]!r}, which is no type of number")


class _Dtype:
    """A dtype under construction: numpy's pickles set the byte order afterwards."""

    def __init__(self, name: str, *_: Any) -> None:
        self.dtype = _dtype(name)

    def __setstate__(self, state: Any) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """An array under construction; ``value`` is the finished one."""

    def __init__(self, *_: Any) -> None:
        self.value: np.ndarray = np.zeros(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        if isinstance(data, str):
            data = data.encode("latin1")
        if not isinstance(data, (bytes, bytearray)) or not isinstance(dtype, _Dtype):
            raise ConversionError("a pickle holds an array that is not made of numbers")
        if not isinstance(shape, tuple) or not all(type(d) is int and d >= 0 for d in shape):
            raise ConversionError("a pickle holds an array whose shape is none")
        self.value = np.frombuffer(data, dtype.dtype).reshape(shape, order="F" if fortran else "C")


def _scalar(dtype: _Dtype, data: Any) -> Any:
    return np.frombuffer(data.encode("latin1") if isinstance(data, str) else data, dtype.dtype)[0]


def array_of(obj: Any) -> np.ndarray | None:
    """The array that an unpickled object stands for, ``None`` when it is none."""
    if isinstance(obj, _Array):
        return obj.value
    # paddle keeps a tensor as (its name, its values).
    if isinstance(obj, tuple) and len(obj) == 2 and isinstance(obj[0], str) and isinstance(obj[1], _Array):
        return obj[1].value
    return None


class _Ndarray:
    """Stands for the class ``numpy.ndarray`` where a pickle names it."""


_PLAIN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _ordered_dict,
    ("builtins", "tuple"): tuple,
    ("__builtin__", "tuple"): tuple,
    ("_codecs", "encode"): _encode,
    ("numpy", "ndarray"): _Ndarray,
    ("numpy", "dtype"): _Dtype,
}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    _PLAIN[_module, "_reconstruct"] = _Array
    _PLAIN[_module, "scalar"] = _scalar
for _module in ("numpy.core.numeric", "numpy._core.numeric"):
    _PLAIN[_module, "_frombuffer"] = lambda data, dtype, shape, order: _from_buffer(data, dtype, shape, order)


def _from_buffer(data: Any, dtype: _Dtype, shape: Any, order: str) -> _Array:
    """Arrays of protocol 5."""
    made = _Array()
    made.__setstate__((1, shape, dtype, order == "F", bytes(data)))
    return made


# -- writing ------------------------------------------------------------------------------------------

START, STOP = b"\x80\x04", b"."
EMPTY_DICT, SET_ITEM = b"}", b"s"


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def integer(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def sequence(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def integers(values: tuple[int, ...]) -> bytes:
    return sequence(*(integer(v) for v in values))


def named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def called(function: bytes, arguments: bytes) -> bytes:
    return function + arguments + b"R"


TRUE, FALSE, NONE = b"\x88", b"\x89", b"N"


def array_head(shape: tuple[int, ...], dtype: np.dtype, nbytes: int) -> tuple[bytes, bytes]:
    """What stands before and after the bytes of a C-ordered little-endian array."""
    made = called(
        # numpy 1 and 2 both know this module by that name.
        named("numpy.core.multiarray", "_reconstruct"),
        sequence(named("numpy", "ndarray"), integers((0,)), b"C\x01b"),
    )
    kind = called(named("numpy", "dtype"), sequence(text(dtype.str[1:]), FALSE, TRUE))
    order = text("|" if dtype.itemsize == 1 else "<")
    kind += sequence(integer(3), order, NONE, NONE, NONE, integer(-1), integer(-1), integer(0)) + b"b"
    before = made + b"(" + integer(1) + integers(shape) + kind + FALSE + b"\x8e" + struct.pack("<Q", nbytes)
    return before, b"tb"
