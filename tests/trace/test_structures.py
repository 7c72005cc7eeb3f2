"""Any structure of arguments: the function gets the very objects, the call is recorded, saved and read back."""

from __future__ import annotations

import collections
import dataclasses
import enum
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import optrace
from optrace import frameworks
from optrace.trace.model import Trace
from optrace.trace.recorder import Recorder
from optrace.trace.records import tensors_in

torch = pytest.importorskip("torch")


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Config:
    a: Any
    b: Any = None


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


def hostile(*names: str) -> Any:
    """An object that raises when it is asked for any of these."""

    def broken(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("hostile")

    return type("Hostile", (), dict.fromkeys(names, broken))()


class BadClass:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("class")


class LiesAboutItsClass:
    @property
    def __class__(self) -> Any:
        return torch.Tensor


class BadGetattribute:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class BadMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError(name)


class OfBadMeta(metaclass=BadMeta):
    pass


class BadDict(dict):
    def items(self) -> Any:
        raise RuntimeError("items")

    __iter__ = __len__ = items


class HugeLength(list):
    def __len__(self) -> int:
        return 2**62


class NegativeLength(list):
    def __len__(self) -> int:
        return -1


class BadKey(str):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        return 1


class BadInt(int):
    def __int__(self) -> int:
        raise RuntimeError("int")

    __index__ = __repr__ = __str__ = __int__  # type: ignore[assignment]


class BadString(str):
    def __str__(self) -> str:
        raise RuntimeError("str")

    __repr__ = encode = __str__  # type: ignore[assignment]


class Endless:
    def __iter__(self) -> Any:
        while True:
            yield self

    def __len__(self) -> int:
        return 3


class GetsAnything:
    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self


def cycle() -> Any:
    made: dict[str, Any] = {"list": []}
    made["list"].append((made, made["list"]))
    return made


MAKERS = [
    lambda: hostile("__repr__", "__str__"), lambda: hostile("__eq__", "__hash__"), lambda: hostile("__len__"),
    lambda: hostile("__getattr__"), lambda: hostile("__bool__", "__iter__", "__getitem__"), lambda: hostile("__array__"),
    lambda: hostile("__torch_function__"), BadClass, LiesAboutItsClass, BadGetattribute, OfBadMeta, lambda: BadDict(a=1),
    lambda: HugeLength([1]), lambda: NegativeLength([1]), lambda: BadKey("k"), lambda: {BadKey("k"): 1}, lambda: BadInt(3),
    lambda: BadString("s"), Endless, GetsAnything, cycle, lambda: 10**5000, lambda: -(2**64), lambda: float("nan"),
    lambda: "\ud800", lambda: collections.OrderedDict(b=1), lambda: collections.defaultdict(list, a=[1]),
    lambda: Colour.RED, lambda: Level.LOW, lambda: range(10**12), lambda: (i for i in ()), lambda: memoryview(b"ab"),
    lambda: np.array([object()]), lambda: np.zeros((0, 2), "U3"), lambda: np.datetime64("2020"), lambda: np.float16(1.5),
    lambda: np.array([(1, 2.0)], "i4,f8"), lambda: slice(hostile("__repr__"), None), lambda: torch.Size([1, 2]),
    lambda: torch.ones(2), lambda: torch.ones(1).expand(3), lambda: torch.nn.Linear(1, 1), lambda: torch.float32, lambda: ...,
    lambda: {1: 2, None: 3, (1, 2): 4}, lambda: frozenset({1}), lambda: Config, lambda: NotImplemented, lambda: b"\xff",
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Odd:
    """Stands for an odd object while hypothesis looks at the structure."""

    index: int


def built(tree: Any) -> Any:
    """The structure with the odd objects in their places."""
    if isinstance(tree, Odd):
        return MAKERS[tree.index]()
    if isinstance(tree, Point):
        return Point(built(tree.x), built(tree.y))
    if isinstance(tree, Config):
        return Config(built(tree.a), built(tree.b))
    if isinstance(tree, dict):
        return {key: built(value) for key, value in tree.items()}
    return type(tree)(map(built, tree)) if isinstance(tree, (list, tuple)) else tree


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(max_size=5), st.binary(max_size=5),
    st.builds(Odd, st.integers(0, len(MAKERS) - 1)),
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=4), inner, max_size=4),
        st.builds(Point, inner, inner),
        st.builds(Config, inner, inner),
    ),
    max_leaves=12,
)
RELAXED = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def record(level: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Trace:
    """A call with these arguments, as the recorder sees it."""
    trace, result, got = Trace(level), object(), []

    def function(*a: Any, **k: Any) -> Any:
        got.extend([a, k])
        return result

    recorder = Recorder(trace, [frameworks.get("torch")])
    assert recorder.call("torch.custom", function, args, kwargs) is result
    assert all(a is b for a, b in zip(got[0], args, strict=True))
    assert list(got[1]) == list(kwargs)
    assert all(a is b for a, b in zip(got[1].values(), kwargs.values(), strict=True))
    return trace


@pytest.mark.filterwarnings("ignore")
@RELAXED
@given(
    st.sampled_from(["meta", "stats", "full"]),
    st.lists(TREES, max_size=3),
    st.dictionaries(st.text(max_size=5), TREES, max_size=3),
)
def test_any_structure_is_recorded_and_comes_back(
    tmp_path: Path, level: str, args: list[Any], kwargs: dict[str, Any]
) -> None:
    trace = record(level, tuple(map(built, args)), built(kwargs))
    assert not trace.errors, trace.errors
    assert len(trace.calls) == 1
    (call,) = trace.calls
    assert len(call.positional) == len(args)
    assert len(call.keyword) == len(kwargs)
    trace.save(tmp_path / "t")
    back = optrace.load(tmp_path / "t")
    assert len(back.calls[0].positional) == len(args)
    assert [r.key for r in tensors_in(back.calls[0].positional)] == [
        r.key for r in tensors_in(call.positional)
    ]


@pytest.mark.parametrize("index", range(len(MAKERS)))
@pytest.mark.parametrize("level", ["meta", "full"])
def test_each_odd_object(level: str, index: int) -> None:
    odd = MAKERS[index]()
    trace = record(level, (odd, [odd], {"k": odd}), {"option": odd})
    assert not trace.errors, trace.errors
    assert len(trace.calls) == 1
