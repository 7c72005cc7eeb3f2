"""Argument trees as msgpack bytes and back. Everything msgpack has no word for travels as an extension."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.msgpack import Ext

from optrace.trace.arguments import text_of
from optrace.trace.records import DtypeRef, Opaque, TensorRef

# Extension codes. A tuple is no list: as an index they mean different things.
TENSOR, TUPLE, SLICE, ELLIPSIS, COMPLEX, DTYPE, OPAQUE, BIG_INT, ODD_TEXT = range(1, 10)

_encode = msgspec.msgpack.Encoder().encode
_LOW, _HIGH = -(1 << 63), 1 << 64
_INDEX, _COMPLEX = struct.Struct("<Q"), struct.Struct("<dd")
_PLAIN = frozenset({type(None), bool, float})


class Packer:
    """Turns trees into what msgpack can say. ``index_of`` numbers the tensors."""

    def __init__(self, index_of: Callable[[TensorRef], int]) -> None:
        self._index_of = index_of

    def pack(self, tree: Any) -> Any:
        kind = type(tree)
        if kind is TensorRef:
            return Ext(TENSOR, _INDEX.pack(self._index_of(tree)))
        if kind in _PLAIN:
            return tree
        if kind is int:
            return tree if _LOW <= tree < _HIGH else Ext(BIG_INT, _int_bytes(tree))
        if kind is str:
            return _text(tree)
        if kind is list:
            return [self.pack(item) for item in tree]
        if kind is tuple:
            return Ext(TUPLE, _encode([self.pack(item) for item in tree]))
        if kind is dict:
            return {_key(key): self.pack(value) for key, value in tree.items()}
        return self._rare(tree)

    def _rare(self, tree: Any) -> Any:
        if isinstance(tree, DtypeRef):
            return Ext(DTYPE, tree.name.encode())
        if isinstance(tree, slice):
            return Ext(SLICE, _encode([self.pack(part) for part in (tree.start, tree.stop, tree.step)]))
        if tree is Ellipsis:
            return Ext(ELLIPSIS, b"")
        if isinstance(tree, complex):
            return Ext(COMPLEX, _COMPLEX.pack(tree.real, tree.imag))
        if isinstance(tree, Opaque):
            return Ext(OPAQUE, _encode([_key(tree.type_name), _key(tree.text)]))
        return self._rare(Opaque(type(tree).__name__, text_of(tree)))


class Unpacker:
    """The reverse. ``tensors`` holds the references by their number.

    Raises ``ValueError`` (msgspec's errors are some) for anything malformed.
    """

    def __init__(self, tensors: list[TensorRef]) -> None:
        self._tensors = tensors
        self._decode = msgspec.msgpack.Decoder(ext_hook=self.hook).decode

    def hook(self, code: int, data: memoryview) -> Any:
        """What an extension stands for; msgspec calls this while it decodes."""
        try:
            return self._meaning(code, data)
        except struct.error as error:
            raise ValueError(f"a malformed extension: {error}") from error

    def _meaning(self, code: int, data: memoryview) -> Any:
        if code == TENSOR:
            (index,) = _INDEX.unpack(data)
            if index >= len(self._tensors):
                raise ValueError(f"tensor {index} has not been described")
            return self._tensors[index]
        if code == TUPLE:
            return tuple(self._list(data))
        if code == SLICE:
            return slice(*self._list(data, 3))
        if code == ELLIPSIS:
            return Ellipsis
        if code == COMPLEX:
            return complex(*_COMPLEX.unpack(data))
        if code == DTYPE:
            return DtypeRef(str(data, "utf-8"))
        if code == OPAQUE:
            return Opaque(*(str(text) for text in self._list(data, 2)))
        if code == BIG_INT:
            return int.from_bytes(data, "little", signed=True)
        if code == ODD_TEXT:
            return str(data, "utf-8", "surrogatepass")
        raise ValueError(f"unknown extension {code}")

    def _list(self, data: memoryview, length: int | None = None) -> list[Any]:
        found = self._decode(data)
        if not isinstance(found, list) or length not in (None, len(found)):
            raise ValueError("a malformed extension")
        return found


def _int_bytes(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)


def _text(text: str) -> Any:
    """The text itself, or an extension when it holds lone surrogates."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return Ext(ODD_TEXT, text.encode("utf-8", "surrogatepass"))
    return text


def _key(key: Any) -> str:
    """A text that UTF-8 can hold."""
    return str(key).encode("utf-8", "backslashreplace").decode()
