"""Arrays beyond the room in memory go to disk and come back as they were."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from optrace.trace import arrays
from optrace.trace.arrays import Arrays


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(arrays, "ROOM", 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def megabyte(seed: int) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, 256, 1 << 20).astype(np.uint8).reshape(1024, 1024)


def test_all_come_back_and_memory_is_bounded(little_room: Path) -> None:
    found = Arrays()
    for i in range(6):
        found[i, 0] = megabyte(i)
    assert len(found) == 6
    assert sorted(found) == [(i, 0) for i in range(6)]
    for i in range(6):
        np.testing.assert_array_equal(found[i, 0], megabyte(i))
    assert sum(path.stat().st_size for path in little_room.rglob("*") if path.is_file()) >= 5 << 20
    del found
    gc.collect()
    assert list(little_room.iterdir()) == []


def test_replaced_and_removed_values() -> None:
    found = Arrays()
    for i in range(3):
        found[i, 0] = megabyte(i)
    found[2, 0] = np.arange(3)
    found[0, 0] = megabyte(9)
    np.testing.assert_array_equal(found[2, 0], [0, 1, 2])
    np.testing.assert_array_equal(found[0, 0], megabyte(9))
    del found[2, 0]
    assert (2, 0) not in found
    assert found.get((2, 0)) is None
    with pytest.raises(KeyError):
        del found[2, 0]


def test_odd_dtypes_and_snapshots_are_kept() -> None:
    found = Arrays()
    found[0, 0] = megabyte(0)
    found[1, 0] = np.ones(1000, ml_dtypes.bfloat16)
    found[2, 0] = np.array(["a", None] * 1000, dtype=object)
    found[3, 0] = snapshot = object()
    assert found[1, 0].dtype == ml_dtypes.bfloat16
    assert found[2, 0][1] is None
    assert found[3, 0] is snapshot


def test_a_disk_without_room_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: object, array: np.ndarray) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("optrace.trace.arrays.ShardWriter.add", full)
    found = Arrays()
    for i in range(4):
        found[i, 0] = megabyte(i)
    np.testing.assert_array_equal(found[3, 0], megabyte(3))
