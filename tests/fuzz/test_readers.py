"""A sample of what ``python -m tests.fuzz`` does at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.readers import READERS, Reader
from tests.fuzz.run import count


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_damaged_files_give_our_errors_only(reader: Reader, tmp_path: Path) -> None:
    outcomes, complaints = count(reader, range(400 * reader.share), tmp_path)
    assert not complaints, complaints[:5]
    assert len(outcomes) >= 2, "some inputs are refused and some are still readable"


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_many_damaged_files(reader: Reader, tmp_path: Path) -> None:
    _, complaints = count(reader, range(20_000), tmp_path)
    assert not complaints, complaints[:5]
