"""An append-only file of records, each readable as soon as it is written.

``magic``, then one frame after the other: 4 bytes length, 4 bytes CRC-32, both little-endian, and
that many bytes of payload. A process killed while it writes leaves at most one incomplete frame at
the end.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from optrace.errors import TraceError

MAGIC = b"optrace\x01"
# Longest payload in bytes, so that a corrupt length does not ask for gigabytes.
MAX_FRAME = 16 << 20
_BUFFER = 1 << 20
_HEAD = struct.Struct("<II")


def frame(payload: bytes) -> bytes:
    """The frame around ``payload``."""
    return _HEAD.pack(len(payload), zlib.crc32(payload)) + payload


def write_all(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    """``os.write`` until everything is out. Raises ``OSError`` (a full disk)."""
    view = memoryview(data).cast("B")
    while len(view):
        view = view[os.write(descriptor, view) :]


class FrameReader:
    """Iterates over the payloads of a file. ``torn`` tells afterwards that the last frame is incomplete.

    Raises ``TraceError`` for a file of another kind and for a complete frame with other bytes than written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn = False

    def __iter__(self) -> Iterator[bytes]:
        with self.path.open("rb", buffering=_BUFFER) as file:
            if (magic := file.read(len(MAGIC))) != MAGIC:
                if MAGIC.startswith(magic):
                    self.torn = True  # killed before the first record
                    return
                raise TraceError(f"{self.path} is no record file of a trace")
            read, unpack, crc32 = file.read, _HEAD.unpack, zlib.crc32
            place, head_size = len(MAGIC), _HEAD.size
            while head := read(head_size):
                if len(head) < head_size:
                    self.torn = True
                    return
                length, checksum = unpack(head)
                if length > MAX_FRAME:
                    raise TraceError(f"{self.path} is corrupt at byte {place}: a record of {length:,} bytes")
                payload = read(length)
                if len(payload) < length:
                    self.torn = True
                    return
                if crc32(payload) != checksum:
                    raise TraceError(
                        f"{self.path} is corrupt at byte {place}: the checksum of a record is wrong"
                    )
                yield payload
                place += head_size + length
