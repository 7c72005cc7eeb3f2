from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from optrace.align.index import same_elements, transposition
from optrace.align.values import agree, difference


def test_shapes_never_broadcast() -> None:
    found = difference(np.zeros((1, 10)), np.zeros((1, 197, 10)))
    assert not agree(found, "float64")
    assert "shape [1, 10] vs [1, 197, 10]" in found.note


def test_non_finite_values_agree_only_in_place() -> None:
    a = np.array([1.0, np.nan, np.inf])
    assert agree(difference(a, a.copy()), "float64")
    b = np.array([1.0, np.inf, np.nan])
    found = difference(a, b)
    assert not agree(found, "float64")
    assert "[1]" in found.note


def test_an_error_near_zero_is_measured_against_the_tensor() -> None:
    a, b = np.array([1.19e-7, 1.0], "f4"), np.array([-1.19e-7, 1.0], "f4")
    assert agree(difference(a, b), "float32")


def test_one_unit_in_the_last_place_of_bfloat16() -> None:
    a, b = np.array([66.0], ml_dtypes.bfloat16), np.array([66.5], ml_dtypes.bfloat16)
    found = difference(a, b)
    assert agree(found, "bfloat16")
    assert found.ulp == 1.0


def test_mask_values_do_not_drown_the_rest() -> None:
    a = np.array([0.5, -0.25, -1e9, -1e9], "f4")
    assert not agree(difference(a, a + np.array([1e-3, 0, 0, 0], "f4")), "float32")


def test_complex_against_real() -> None:
    a = np.array([1.0, 2.0])
    assert agree(difference(a, a.astype(complex)), "complex128")


@pytest.mark.parametrize("empty", [np.zeros((0,)), np.zeros((3, 0))])
def test_empty_arrays_are_equal(empty: np.ndarray) -> None:
    assert agree(difference(empty, empty.copy()), "float64")


@given(
    hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=6), elements=st.floats(-1e6, 1e6, width=32))
)
def test_an_array_agrees_with_itself(a: np.ndarray) -> None:
    assert agree(difference(a, a.copy()), "float32")


@given(st.permutations(range(3)))
def test_transpositions_are_found(axes: list[int]) -> None:
    base = np.random.RandomState(0).randn(2, 3, 4).astype("f4")
    raw = np.ascontiguousarray(base.transpose(axes))
    found = transposition(base, raw, "float32")
    assert found is None if axes == [0, 1, 2] else found == tuple(axes)
    assert same_elements(base, raw)
