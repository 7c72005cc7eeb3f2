"""Traces on disk: what is written is what is read, whatever happens in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import optrace
from optrace.errors import TraceError
from optrace.trace.model import Trace
from optrace.trace.records import Call, DtypeRef, Opaque, Site, TensorRef, tensors_in

REF = TensorRef(1, 0, (2, 3), "float32")
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    st.text(st.characters()),
    st.just(Ellipsis),
    st.builds(slice, st.integers(-9, 9), st.none(), st.integers(1, 3)),
    st.builds(DtypeRef, st.sampled_from(["float32", "bfloat16"])),
    st.builds(Opaque, st.just("Thing"), st.just("<text>")),
    st.builds(TensorRef, st.integers(1, 5), st.integers(0, 3), st.just((2,)), st.just("int64")),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=12,
)
RELAXED = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def made(*trees: object) -> Trace:
    trace = Trace("full")
    for i, tree in enumerate(trees):
        site = Site("model.py", i, "f", "y = f(x)")
        trace.append(
            Call(i, "torch.add", "torch", [tree], {"k": tree}, outputs=tree, site=site, parent=i - 1)
        )
    return trace


@RELAXED
@given(st.lists(TREES, max_size=4))
def test_argument_trees_come_back(tmp_path: Path, trees: list[object]) -> None:
    trace = made(*trees)
    trace.outputs, trace.meta["more"] = [REF], {"a": (1, [2])}
    trace.errors["one"] += 2
    trace.save(tmp_path / "t")
    back = optrace.load(tmp_path / "t")
    assert back.calls == trace.calls and all(type(a) is type(b) for a, b in zip(back.calls, trace.calls))
    assert (back.meta, back.outputs, back.errors) == (trace.meta, trace.outputs, trace.errors)


@pytest.mark.parametrize("name", [
    "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128",
    "bool", "int8", "int64", "uint16",
])  # fmt: skip
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (5, 7)])
def test_values_come_back(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    array = np.asarray(np.random.default_rng(0).standard_normal(shape) * 3).astype(dtype)
    trace = made(REF)
    trace.values[REF.key] = trace.values[2, 0] = array
    trace.save(tmp_path / "t")
    back = optrace.load(tmp_path / "t").value(REF)
    assert back is not None and (back.dtype, back.shape, back.tobytes()) == (
        array.dtype,
        array.shape,
        array.tobytes(),
    )
    with safetensors.safe_open(tmp_path / "t" / "values-00000.safetensors", "np") as file:
        assert len(file.keys()) == 1  # the same bytes twice are stored once


def test_fingerprints_come_back(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with optrace.trace(out=tmp_path / "t") as trace:
        torch.relu(torch.ones(3)) + torch.ones(40, 40).sum()
    back = optrace.load(tmp_path / "t")
    assert back.calls == trace.calls and dict(back.fingerprints) == dict(trace.fingerprints)
    assert len(back.fingerprints) >= 4
    assert {call.site.code for call in back.calls} == {"torch.relu(torch.ones(3)) + torch.ones(40, 40).sum()"}


def test_streamed_values_leave_memory_and_come_back(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with optrace.trace(level="full", out=tmp_path / "t") as trace:
        x = torch.randn(300, 300)
        y = x @ x
        x.add_(1)
        torch.relu(y)
    assert not trace.values
    back = optrace.load(tmp_path / "t")
    for call in trace.calls:
        for ref in tensors_in([call.positional, call.outputs, call.mutated]):
            one, other = trace.value(ref), back.value(ref)
            assert one is not None and other is not None and np.array_equal(one, other)
    assert np.array_equal(back.value(back.calls[-1].outputs), torch.relu(y).numpy())


PROGRAM = """
import os, sys, optrace, torch
with optrace.trace(level="full", out=sys.argv[1]):
    x = torch.ones(3)
    for i in range(5):
        x = torch.relu(x)
    {end}
"""


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 9)", "raise SystemExit(4)", "1 / 0"])
def test_a_run_that_ends_early_is_readable(tmp_path: Path, end: str) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-c", PROGRAM.format(end=end), str(tmp_path / "t")]
    subprocess.run(command, capture_output=True, check=False, env={**os.environ, "PYTHONPATH": os.getcwd()})
    trace = optrace.load(tmp_path / "t")
    assert [c.api for c in trace.calls[-5:]] == ["torch.relu"] * 5
    assert np.array_equal(trace.value(trace.calls[-1].outputs), np.ones(3, np.float32))
    assert ("incomplete" in trace.meta) == end.startswith("os.")


def test_killed_at_any_byte(tmp_path: Path) -> None:
    trace = made(*range(6))
    trace.save(tmp_path / "t")
    records = tmp_path / "t" / "calls.bin"
    summary = tmp_path / "t" / "meta.json"
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "complete": False}))
    whole, last = records.read_bytes(), -1
    for length in range(len(whole) + 1):
        records.write_bytes(whole[:length])
        back = optrace.load(tmp_path / "t")
        assert len(back.calls) >= last and all(a.api == b.api for a, b in zip(back.calls, trace.calls))
        last = len(back.calls)
    assert last == 6


def test_a_complete_trace_cut_short_is_refused(tmp_path: Path) -> None:
    made(1, 2).save(tmp_path / "t")
    records = tmp_path / "t" / "calls.bin"
    records.write_bytes(records.read_bytes()[:-3])
    with pytest.raises(TraceError, match="truncated"):
        optrace.load(tmp_path / "t")


@RELAXED
@given(st.data())
def test_damage_gives_our_error_or_a_trace(tmp_path: Path, data: st.DataObject) -> None:
    folder = tmp_path / "t"
    trace = made((1, [REF]), {"a": 2.5})
    trace.values[REF.key] = np.ones((2, 3), np.float32)
    trace.save(folder)
    target = folder / data.draw(st.sampled_from(["calls.bin", "meta.json", "values-00000.safetensors"]))
    raw = bytearray(target.read_bytes())
    for place, byte in data.draw(st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 255)), min_size=1)):
        raw[place % min(len(raw), 2000)] = byte
    target.write_bytes(raw)
    try:
        back = optrace.load(folder)
        for call in back.calls:
            for ref in tensors_in(call.positional):
                back.value(ref)
    except TraceError:
        pass


def test_foreign_folders(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("precious")
    for path in (tmp_path / "none", tmp_path / "mine", tmp_path / "mine" / "notes.txt"):
        with pytest.raises(TraceError):
            optrace.load(path)
    for write in (made().save, lambda path: optrace.trace(out=path).__enter__()):
        with pytest.raises(TraceError):
            write(tmp_path / "mine")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "precious"


def test_saving_over_an_older_trace(tmp_path: Path) -> None:
    made(1, 2, 3).save(tmp_path / "t")
    made(4).save(tmp_path / "t")
    assert len(optrace.load(tmp_path / "t").calls) == 1
    assert os.listdir(tmp_path) == ["t"]


FULL_DISK = """
import resource, sys, warnings, optrace, torch
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    with optrace.trace(level="full", out=sys.argv[1]) as trace:
        x = torch.randn(100, 100)
        for i in range(30):
            x = torch.relu(x) + 1
assert len(trace.calls) > 60, len(trace.calls)
assert any("ends early" in str(w.message) for w in said), said
assert any("writing" in e for e in trace.errors), trace.errors
"""


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs file size limits")
def test_a_full_disk_stops_the_trace_on_disk_not_the_program(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "t")]
    env = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert optrace.load(tmp_path / "t").calls
