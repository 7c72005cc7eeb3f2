"""Arguments by canonical name, for whatever a trace may hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optrace import ops
from optrace.ops.binding import signature_for
from optrace.ops.table import table
from optrace.trace.records import DtypeRef, TensorRef

T = TensorRef(uid=1, version=0, shape=(2, 3), dtype="float32")
D = DtypeRef("float32")
NAMES = sorted({n for row in table().rows for f in ("torch", "paddle") for n in row.names(f) if "*" not in n})

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-4, 9),
    st.floats(allow_nan=True),
    st.sampled_from(["mean", "float32", "same", "NCHW", ""]),
    st.just(T),
    st.just(D),
    st.just(...),
    st.just(slice(None, 2)),
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner), max_leaves=4
)
keywords = st.sampled_from(
    "dim axis keepdim x input other y p shape size weight out name reduction perm".split()
)
calls = st.tuples(st.lists(values, max_size=5), st.dictionaries(keywords, values, max_size=3))


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(NAMES), calls)
def test_bind_never_raises_and_loses_nothing(api: str, call: tuple[list[Any], dict[str, Any]]) -> None:
    positional, keyword = call
    if positional:
        keyword = {}  # the same parameter given twice is no call
    bound = ops.bind(api, positional, keyword)
    flat = [v for value in bound.values() for v in (value if isinstance(value, (list, tuple)) else [value])]
    for value in [*positional, *keyword.values()]:
        if value not in ([], ()):
            assert any(value is v for v in bound.values()) or any(value is v for v in flat) or value in flat


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(NAMES), calls, calls)
def test_comparing_never_raises_and_finds_nothing_in_a_call_against_itself(api: str, a: Any, b: Any) -> None:
    first, second = ops.bind(api, *a), ops.bind(api, *b)
    if "nan" not in repr(first):
        assert ops.compare_arguments(api, first, api, first) == []
    ops.compare_arguments(api, first, api, second)
    for other in ops.equivalents(api)[:2]:
        ops.compare_arguments(api, first, other, ops.bind(other, *b))
        ops.translate(api, first, other)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(NAMES), st.data())
def test_arrange_is_the_inverse_of_bind(api: str, data: st.DataObject) -> None:
    signature = table().signatures(api)[0][1]
    positional = [p for p in signature.parameters if p.kind == "positional"]
    given_ = data.draw(st.integers(0, len(positional)))
    bound = {p.name: i + 100 for i, p in enumerate(positional[:given_])}
    found = signature_for(api, bound)
    assert found is not None
    args, kwargs = ops.arrange(api, bound)
    again = found[1].bind(args, kwargs)[0]
    assert {k: again[k] for k in bound} == bound


@pytest.mark.parametrize(
    ("api", "positional", "keyword", "expected"),
    [
        ("torch.add", [T, 2], {"alpha": 3}, {"input": T, "other": 2, "alpha": 3}),
        ("torch.Tensor.__radd__", [T, 2], {}, {"other": T, "input": 2}),
        ("torch.sum", [T], {"axis": 1, "keepdims": True}, {"input": T, "dim": 1, "keepdim": True}),
        ("paddle.sum", [], {"input": T, "dim": 1}, {"x": T, "axis": 1}),
        ("torch.Tensor.reshape", [T, 2, -1], {}, {"input": T, "shape": (2, -1)}),
        ("torch.Tensor.reshape", [T, [2, -1]], {}, {"input": T, "shape": [2, -1]}),
        ("torch.zeros", [2, 3], {"dtype": D}, {"size": (2, 3), "dtype": D}),
        ("torch.max", [T], {}, {"input": T}),
        ("torch.max", [T, 1], {}, {"input": T, "dim": 1}),
        ("torch.max", [T, T], {}, {"input": T, "other": T}),
        ("torch.where", [T], {}, {"condition": T}),
        ("torch.std", [T, 1, False], {}, {"input": T, "dim": 1, "unbiased": False}),
        ("torch.std", [T, False], {}, {"input": T, "unbiased": False}),
        ("torch.std", [T], {"dim": 1, "correction": 0}, {"input": T, "dim": 1, "correction": 0}),
        ("torch.einsum", ["ij,jk->ik", T, T], {}, {"equation": "ij,jk->ik", "operands": (T, T)}),
        ("nobody.knows", [T, 2], {"k": 3}, {"arg0": T, "arg1": 2, "k": 3}),
        ("paddle.nn.functional.gelu", [T, True], {}, {"x": T, "approximate": True}),
        ("paddle.transpose", [T, 0, 1], {}, {"x": T, "axis0": 0, "axis1": 1}),
        ("paddle.transpose", [T, [1, 0]], {}, {"x": T, "perm": [1, 0]}),
    ],
)
def test_bind(api: str, positional: list[Any], keyword: dict[str, Any], expected: dict[str, Any]) -> None:
    assert ops.bind(api, positional, keyword) == expected


def test_defaults() -> None:
    assert ops.defaults("torch.nn.functional.gelu") == {"approximate": "none"}
    assert ops.defaults("paddle.nn.functional.softmax")["axis"] == -1
    assert ops.defaults("nobody.knows") == {}
