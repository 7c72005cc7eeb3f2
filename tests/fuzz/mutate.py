"""Ways to damage a file: blindly, and knowing its format."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable

import msgspec

from optrace.trace.frames import MAGIC, frame

# Sizes and texts on which readers have failed.
NUMBERS = [0, 1, 2, 7, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]
WORDS = [
    b"NaN", b"-1", b"1e999", b"null", b"[]", b"{}", b'""', b"9" * 30, b"[[[[[[[[", b"../../../etc/passwd", b"\x00",
    b"\xff\xfe", b"{i}{i}", b"{x*}{x*}", b"F32", b"object", b"complex128", b"inf", b"true", b'"__metadata__"',
    b"\xed\xa0\x80", b"(a+)+$", b"*", b".",
]  # fmt: skip
# Programs for the pickle machine, each of which would do something if anything here did.
PROGRAMS = [
    b"cos\nsystem\n(S'true'\ntR", b"cbuiltins\neval\n(X\x01\x00\x00\x001tR", b"(S'true'\nios\nsystem\n",
    b"\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R", b"cposix\nabort\n)R", b"\x80\x04\x82\x01",
    b"r\xff\xff\xff\x7f", b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"))\x862\x862\x862\x862\x862\x862\x86", b"ccollections\nOrderedDict\n)R}b", b"\x8b\xff\xff\xff\x7f", b"}(h\x00h\x01u",
    b"cnumpy\nndarray\nN}\x8c\x01aK\x01s\x86b", b"cnumpy\ndtype\nX\x02\x00\x00\x00O8\x85R", b"]h\x00a", b"Q", b"P0\n",
    b"cnumpy.core.multiarray\n_reconstruct\n)R(K\x01(\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7ftNNC\x00tb",
]  # fmt: skip

Mutation = Callable[[random.Random, bytes], bytes]


def blind(rng: random.Random, data: bytes) -> bytes:
    """A few changes of bytes, anywhere."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        if not out:
            return bytes(rng.choice(WORDS))
        at = rng.randrange(len(out)) if rng.random() < 0.5 else rng.randrange(min(len(out), 400))
        rng.choice(_STEPS)(rng, out, at)
    return bytes(out)


def _flip(rng: random.Random, out: bytearray, at: int) -> None:
    out[at] ^= 1 << rng.randrange(8)


def _set(rng: random.Random, out: bytearray, at: int) -> None:
    out[at] = rng.choice((0, 255, rng.randrange(256)))


def _number(rng: random.Random, out: bytearray, at: int) -> None:
    width = rng.choice((1, 2, 4, 8))
    number = rng.choice(NUMBERS) % (1 << 8 * width)
    out[at : at + width] = number.to_bytes(width, rng.choice(("little", "big")))


def _word(rng: random.Random, out: bytearray, at: int) -> None:
    out[at : at + rng.choice((0, 1, 4))] = rng.choice(WORDS)


def _digits(rng: random.Random, out: bytearray, at: int) -> None:
    """Another number where one is written in digits."""
    while at < len(out) and not 48 <= out[at] < 58:
        at += 1
    end = at
    while end < len(out) and 48 <= out[end] < 58:
        end += 1
    out[at:end] = str(rng.choice(NUMBERS)).encode()


def _cut(rng: random.Random, out: bytearray, at: int) -> None:
    del out[at : at + rng.choice((1, 4, 64, len(out)))]


def _repeat(rng: random.Random, out: bytearray, at: int) -> None:
    part = bytes(out[at : at + rng.choice((1, 8, 40))])
    out[at:at] = part * rng.choice((1, 2, 50))


def _move(rng: random.Random, out: bytearray, at: int) -> None:
    size = rng.choice((1, 4, 20))
    part = bytes(out[at : at + size])
    del out[at : at + size]
    to = rng.randrange(len(out) + 1)
    out[to:to] = part


_STEPS = [_flip, _set, _number, _word, _digits, _cut, _repeat, _move]


def pickled(rng: random.Random, data: bytes) -> bytes:
    """A pickle with foreign instructions in it."""
    if rng.random() < 0.4:
        return blind(rng, data)
    at = rng.randrange(len(data) + 1)
    return data[:at] + b"".join(rng.choices(PROGRAMS, k=rng.choice((1, 1, 3)))) + data[at:]


def zipped(rng: random.Random, data: bytes) -> bytes:
    """An archive that is whole, with a damaged pickle or a member missing, compressed, twice, or elsewhere."""
    if rng.random() < 0.3:
        return blind(rng, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    out = io.BytesIO()
    odd = rng.choice(("", "", "", "missing", "compressed", "short", "renamed"))
    victim = rng.randrange(len(members))
    with zipfile.ZipFile(out, "w") as archive:
        for number, (name, content) in enumerate(members):
            if name.endswith(".pkl") and (not odd or rng.random() < 0.5):
                content = pickled(rng, content)
            if number == victim and odd == "missing":
                continue
            if number == victim and odd == "short":
                content = content[: len(content) // 2]
            if number == victim and odd == "renamed":
                name = "../../" + name
            kind = zipfile.ZIP_DEFLATED if number == victim and odd == "compressed" else zipfile.ZIP_STORED
            archive.writestr(name, content, kind)
    return out.getvalue()


def records(rng: random.Random, data: bytes) -> bytes:
    """A trace's records: valid frames with other contents, in another order, or with some missing."""
    if rng.random() < 0.25:
        return blind(rng, data)
    payloads = _payloads(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(payloads))
        step = rng.random()
        if step < 0.1:
            del payloads[at]
        elif step < 0.2:
            payloads.insert(rng.randrange(len(payloads) + 1), payloads[at])
        elif step < 0.5:
            payloads[at] = blind(rng, payloads[at])
        else:
            payloads[at] = _other_values(rng, payloads[at])
        if not payloads:
            break
    return MAGIC + b"".join(map(frame, payloads))


def _payloads(data: bytes) -> list[bytes]:
    found, at = [], len(MAGIC)
    while at + 8 <= len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        found.append(data[at + 8 : at + 8 + length])
        at += 8 + length
    return found


def _other_values(rng: random.Random, payload: bytes) -> bytes:
    """The same record with one leaf replaced, still valid msgpack."""
    try:
        tree = msgspec.msgpack.decode(payload)
        leaves: list[tuple[list | dict, int | str]] = []
        stack = [tree]
        while stack:
            node = stack.pop()
            items = (
                enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, dict) else ()
            )
            for key, value in items:
                leaves.append((node, key))
                stack.append(value)
        if leaves:
            node, key = rng.choice(leaves)
            node[key] = _value(rng)  # type: ignore[index]
        return msgspec.msgpack.encode(tree)
    except (ValueError, OverflowError, TypeError):
        return blind(rng, payload)


def _value(rng: random.Random) -> object:
    deep: list = []
    for _ in range(200):
        deep = [deep]
    return rng.choice((
        rng.choice(NUMBERS), -1, -(2**63), None, True, 0.5, float("nan"), "", "x" * 300, "../../x", [], {}, deep,
        [2**40, 2**40], [-1], {"a": {}}, msgspec.msgpack.Ext(rng.randrange(12), b"\x00" * rng.choice((0, 8, 16))),
        msgspec.msgpack.Ext(2, b"\x92\x01\xc7\x00\x02"), msgspec.msgpack.Ext(7, b"\x92\xa1a\x01"),
    ))  # fmt: skip
