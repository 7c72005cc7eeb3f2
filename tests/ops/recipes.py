"""Input recipes of the op table: ``"float[2,3] 0..1"`` and friends, made from a fixed seed.

``KIND[SHAPE] how``; KIND is a dtype name, ``perm`` (a permutation of 0..n-1), ``prob`` (rows that sum
to one), ``sparse`` or ``csr`` (a sparse tensor, two thirds of it zeros). ``how``: ``a..b`` (a range), ``sorted``, ``spd`` (symmetric positive definite), ``lower``,
``upper``, ``logprob`` (logarithms of probabilities), ``ties`` (few distinct values), ``distinct``
(values far apart), ``edges`` (zeros, huge and tiny values, signs). ``"int: [1, 2]"`` is a tensor with
these values. Other values stand for themselves.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int64",
    "int32": "int32",
    "short": "int16",
    "byte": "uint8",
    "char": "int8",
    "bool": "bool",
    "complex": "complex64",
    "cdouble": "complex128",
    "perm": "int64",
    "prob": "float32",
    "sparse": "float32",
    "csr": "float32",
}
SPARSE = ("sparse", "csr")
_SHAPED = re.compile(r"^(\w+)\[([\d, ]*)\]\s*(.*)$")
_LITERAL = re.compile(r"^(\w+): (.*)$", re.S)


def is_recipe(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    match = _SHAPED.match(value) or _LITERAL.match(value)
    return match is not None and match[1] in DTYPES


def array(recipe: str, rng: np.random.Generator) -> np.ndarray:
    """The array a recipe stands for."""
    literal = _LITERAL.match(recipe)
    if literal is not None and literal[1] in DTYPES:
        return np.array(json.loads(literal[2]), dtype=DTYPES[literal[1]])
    match = _SHAPED.match(recipe)
    assert match is not None, recipe
    kind, how = match[1], match[3]
    shape = tuple(int(n) for n in match[2].split(",") if n.strip())
    dtype = np.dtype(DTYPES[kind])
    if kind == "perm":
        return rng.permutation(shape[0]).astype(dtype)
    if kind == "prob":
        weights = rng.random(shape) + 0.1
        return (weights / weights.sum(-1, keepdims=True)).astype(dtype)
    found = _shaped(dtype, shape, how, rng)
    return found * (rng.random(shape) < 0.34).astype(dtype) if kind in SPARSE else found


def _shaped(dtype: np.dtype, shape: tuple[int, ...], how: str, rng: np.random.Generator) -> np.ndarray:
    low_high = re.match(r"^(-?[\d.]+?)\.\.(-?[\d.]+)(.*)$", how)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        low, high = (
            (int(float(low_high[1])), int(float(low_high[2])))
            if low_high
            else (0 if dtype.kind == "u" else -5, 6)
        )
        found = rng.integers(low, high, shape)
        return (np.sort(found, -1) if how.endswith("sorted") else found).astype(dtype)
    if low_high:
        found = rng.uniform(float(low_high[1]), float(low_high[2]), shape)
    elif how.startswith("ties"):
        found = rng.integers(-2, 3, shape).astype("float64")
    elif how.startswith("distinct"):
        found = (rng.permutation(int(np.prod(shape))).reshape(shape) - int(np.prod(shape)) // 2) * 0.37 + 0.11
    elif how.startswith("edges"):
        found = rng.choice([0.0, -0.0, 1e-30, -1e-30, 1e30, -1e30, 1.0, -1.0, 0.5], shape)
    else:
        found = rng.standard_normal(shape)
    if dtype.kind == "c":
        found = found + 1j * rng.standard_normal(shape)
    if how.startswith("spd"):
        found = found @ np.swapaxes(found, -1, -2).conj() + shape[-1] * np.eye(shape[-1])
    elif how.startswith("lower"):
        found = np.tril(found) + shape[-1] * np.eye(shape[-1])
    elif how.startswith("upper"):
        found = np.triu(found) + shape[-1] * np.eye(shape[-1])
    elif how.startswith("logprob"):
        found = found - np.log(np.exp(found).sum(-1, keepdims=True))
    elif how.endswith("sorted"):
        found = np.sort(found, -1)
    return np.asarray(found).astype(dtype)
