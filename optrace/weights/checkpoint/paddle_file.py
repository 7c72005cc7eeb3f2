"""``.pdparams``: a pickled dict of numpy arrays; bf16 as uint16 codes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from optrace.errors import ConversionError
from optrace.weights.checkpoint import pickles
from optrace.weights.checkpoint.entry import Contents, Entry, dtype_name, raw_bytes

# Bookkeeping of paddle's own, rebuilt when it loads the file.
_BOOKKEEPING = frozenset({"StructuredToParameterName@@", "UnpackBigParamInfor@@"})


def read(path: Path) -> Contents:
    """The tensors of a file, all in memory: the format can't be read in parts. Raises ``ConversionError``."""
    with path.open("rb") as file:
        state = pickles.Unpickler(file, path, {}).load()
    if not isinstance(state, dict):
        raise ConversionError(f"{path} holds no dict of tensors")
    try:
        _join_parts(state)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise ConversionError(f"{path}: an array in parts is malformed: {error!r}") from error
    entries, others = [], []
    for name, value in state.items():
        array = pickles.array_of(value)
        if array is None:
            if name not in _BOOKKEEPING:
                others.append(str(name))
            continue
        if array.dtype == np.uint16:  # numpy has no bf16; paddle has no uint16
            array = array.view(ml_dtypes.bfloat16)
        entries.append(Entry(str(name), array.shape, dtype_name(array.dtype), partial(np.asarray, array)))
    return Contents(tuple(entries), tuple(others))


def _join_parts(state: dict[Any, Any]) -> None:
    """Old files cut arrays beyond 4 GiB in slices."""
    about = state.get("UnpackBigParamInfor@@")
    for name, info in about.items() if isinstance(about, dict) else ():
        parts = [pickles.array_of(state.pop(part)) for part in info["slices"]]
        whole = np.concatenate([p for p in parts if p is not None])
        held = pickles._Array()
        held.value = whole.reshape(tuple(info["OriginShape"]))
        state[name] = held


def write(path: Path, tensors: Iterable[Entry], progress: Any = None) -> None:
    """Write a file that ``paddle.load`` reads, one tensor at a time. Raises ``ConversionError`` for fp8."""
    with path.open("wb") as file:
        file.write(pickles.START + pickles.EMPTY_DICT)
        for entry in tensors:
            array = np.ascontiguousarray(entry.load()).reshape(entry.shape)
            if entry.dtype == "bfloat16":
                array = array.view(np.uint16)
            elif array.dtype.kind not in "biufc":
                raise ConversionError(
                    f".pdparams has no dtype {entry.dtype} ({entry.name}); add a rule with 'cast'"
                )
            before, after = pickles.array_head(entry.shape, array.dtype, array.nbytes)
            file.write(pickles.text(entry.name) + before)
            file.write(raw_bytes(array))
            file.write(after + pickles.SET_ITEM)
            if progress is not None:
                progress(entry)
        file.write(pickles.STOP)
