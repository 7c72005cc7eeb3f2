"""Fingerprints: defined for every dtype, the same whoever holds the values, good for distances."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest

import optrace
from optrace.trace.fingerprint import BATCH, SMALL, Fingerprints, distance, fingerprint

SIZES = (1, 7, 256, 257, SMALL, SMALL + 1, 16384, 16385, 40000)


@pytest.mark.parametrize("n", SIZES)
def test_statistics(n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    found, exact = fingerprint(x), x.astype(np.float64)
    assert found.count == n and found.non_finite == 0
    assert (found.minimum, found.maximum) == (x.min(), x.max())
    scale = np.sqrt(np.mean(exact**2))
    wanted = np.array([exact.mean(), scale, np.abs(exact).mean()])
    assert np.allclose([found.mean, found.rms, found.abs_mean], wanted, atol=1e-6 * scale)


@pytest.mark.parametrize("n", SIZES)
def test_alone_or_in_company_it_is_the_same(n: int) -> None:
    arrays = [np.random.default_rng(i).standard_normal(n).astype(np.float32) for i in range(BATCH + 3)]
    many = Fingerprints()
    for i, array in enumerate(arrays):
        many.take((i, 0), array)
        array = array.copy()
    assert [many[i, 0] for i in range(len(arrays))] == [fingerprint(a) for a in arrays]


def test_values_are_taken_as_they_are_now() -> None:
    many, array = Fingerprints(), np.ones(5, np.float32)
    many.take((1, 0), array)
    array[:] = 9
    assert many[1, 0].maximum == 1


@pytest.mark.parametrize("n", SIZES[1:])
def test_the_distance_is_estimated(n: int) -> None:
    shares = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal(n)
        y = x + 0.01 * rng.standard_normal(n)
        shares.append(distance(fingerprint(x), fingerprint(y)) / np.linalg.norm(x - y))
    assert 0.85 < np.mean(shares) < 1.15 and np.std(shares) < 0.35


def test_odd_values_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (4, 5000):
            x = np.full(n, 3e38, np.float32)
            assert fingerprint(x).rms == pytest.approx(3e38, rel=1e-6)
            x[0], x[1] = np.nan, -np.inf
            assert fingerprint(x).non_finite == 2
        assert fingerprint(np.empty((0, 3), np.float32)).count == 0
        assert fingerprint(np.float32(2.5).reshape(())).mean == 2.5


@pytest.mark.parametrize(
    "name", ["bool", "int8", "int64", "float16", "bfloat16", "float8_e4m3fn", "complex64"]
)
@pytest.mark.parametrize("n", [6, 5000])
def test_every_dtype(name: str, n: int) -> None:
    x = np.random.default_rng(0).integers(0, 2, n).astype(np.dtype(getattr(ml_dtypes, name, name)))
    assert fingerprint(x).maximum == 1 and fingerprint(x).count == (2 * n if name == "complex64" else n)


@pytest.mark.parametrize("shape", [(), (0, 2), (3, 5), (40, 50)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "bfloat16", "complex64"])
def test_both_frameworks_give_the_same(shape: tuple[int, ...], dtype: str) -> None:
    torch, paddle = pytest.importorskip("torch"), pytest.importorskip("paddle")
    x = np.asarray(np.random.default_rng(0).standard_normal(shape) * 4)
    with optrace.trace() as trace:
        torch.reshape(torch.from_numpy(x.copy()).to(getattr(torch, dtype)), shape)
        paddle.reshape(paddle.to_tensor(x).astype(dtype), shape)
    first, second = (
        next(trace.stats(c.outputs) for c in trace.calls if c.api == f"{name}.reshape")
        for name in ("torch", "paddle")
    )
    assert first is not None and first == second
