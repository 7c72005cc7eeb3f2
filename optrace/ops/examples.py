"""Example calls of a row, written out for either side to be read and run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from optrace.ops.binding import signature_for
from optrace.ops.compare import pair, translate
from optrace.ops.forms import shape_of
from optrace.ops.schema import SWITCHES, Row
from optrace.ops.signature import C_LEVEL
from optrace.trace.records import DtypeRef

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
# How a dense tensor of so many axes becomes a sparse one.
SPARSE = {
    ("torch", "sparse"): ".to_sparse()",
    ("torch", "csr"): ".to_sparse_csr()",
    ("paddle", "sparse"): ".to_sparse_coo({axes})",
    ("paddle", "csr"): ".to_sparse_csr()",
}
SHAPED = re.compile(r"^(\w+)\[([\d, ]*)\]\s*(.*)$")
LITERAL = re.compile(r"^(\w+): (.*)$", re.S)
RANGE = re.compile(r"^(-?[\d.]+?)\.\.(-?[\d.]+)(.*)$")
INDEX = "index: "
ATTRIBUTES = ("torch.Tensor.mT", "paddle.Tensor.mT")
NEW_TENSOR = {"torch": "torch.tensor", "paddle": "paddle.to_tensor"}


class Example(NamedTuple):
    """Lines that make the inputs (numpy as ``np``, a generator as ``rng``), and a call of each side."""

    inputs: list[str]
    torch: str
    paddle: str


class Input(msgspec.Struct, frozen=True):
    """A tensor of the example by the name of the array that it is made from."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str


class Code(msgspec.Struct, frozen=True):
    """An expression that is written as it stands."""

    text: str


def is_recipe(value: Any) -> bool:
    """Whether a value of an example stands for a tensor."""
    if not isinstance(value, str):
        return False
    match = SHAPED.match(value) or LITERAL.match(value)
    return match is not None and match[1] in DTYPES


def carry(row: Row, args: Mapping[str, Any], base: str, raw: str) -> dict[str, Any] | None:
    """Arguments of ``base`` (a name of the row) as ``raw`` takes them, tensors included."""
    there = translate(base, args, raw, row)
    sides = pair(base, args, raw, None, None, row)
    if there is None or sides is None:
        return None
    found = dict(there)
    found.update({sides[1].own(sides[0].common(n)): v for n, v in args.items() if has_tensor(v)})
    order = sides[1].signature.names
    return {n: found[n] for n in (*order, *(k for k in found if k not in order)) if n in found}


def has_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(has_tensor, value))
    return shape_of(value) is not None


def example_of(row: Row, index: int = 0) -> Example | None:
    """One example of a row as code; ``None`` for a row without."""
    if not (row.torch and row.paddle and index < len(row.examples)):
        return None
    inputs: list[str] = []
    args = {n: _made(n, v, inputs) for n, v in row.examples[index].items() if n not in SWITCHES}
    base, raw = row.names("torch")[0], row.names("paddle")[0]
    there = carry(row, args, base, raw)
    if there is None:
        return None
    return Example(inputs, _call(row, base, args, "torch"), _call(row, raw, there, "paddle"))


def _made(name: str, value: Any, inputs: list[str]) -> Any:
    if is_recipe(value):
        text, shape, dtype = array_code(value)
        inputs.append(f"{name} = {text}")
        return Input(name, shape, dtype, value.partition("[")[0])
    if isinstance(value, str) and value.startswith(INDEX):
        return Code(f"np.s_[{value.removeprefix(INDEX)}]")
    if name == "dtype" and isinstance(value, str):
        return DtypeRef(value)
    if isinstance(value, list):
        return [_made(f"{name}{i}", v, inputs) for i, v in enumerate(value)]
    return value


def _call(row: Row, api: str, args: Mapping[str, Any], side: str) -> str:
    found = signature_for(api, args, row)
    positional, keyword = found[1].arrange(args) if found else ([], dict(args))
    texts = [_written(row, value, side) for value in positional]
    if api.startswith(ATTRIBUTES) and len(texts) == 1:
        return f"{texts[0]}.{api.rpartition('.')[2]}"
    by_position = api.startswith(C_LEVEL) or ".Tensor." in api
    if found and not by_position and not any(p.kind == "varargs" for p in found[1].parameters):
        names = found[1].names[: len(positional)]
        # what may be left out reads better with its name
        first = next((i for i, n in enumerate(names) if n not in found[1].required), len(names))
        tensors = max((i + 1 for i, value in enumerate(positional) if has_tensor(value)), default=0)
        first = max(first, tensors)
        texts[first:] = [f"{n}={t}" for n, t in zip(names[first:], texts[first:]) if n in args]
    texts += [f"{name}={_written(row, value, side)}" for name, value in keyword.items()]
    return f"{api}({', '.join(texts)})"


def _written(row: Row, value: Any, side: str) -> str:
    if isinstance(value, Input):
        order = row.layout.get(value.name) if side == "paddle" else None
        stored = SPARSE.get((side, value.kind), "").format(axes=len(value.shape))
        return f"{NEW_TENSOR[side]}({value.name}{f'.transpose({order})' if order else ''}){stored}"
    if isinstance(value, Code):
        return value.text
    if isinstance(value, DtypeRef):
        return f"{side}.{value.name}"
    if isinstance(value, list):
        return f"[{', '.join(_written(row, v, side) for v in value)}]"
    if isinstance(value, tuple):
        return f"({''.join(_written(row, v, side) + ', ' for v in value).rstrip()})"
    if isinstance(value, float) and value in (float("inf"), -float("inf")):
        return f"float({str(value)!r})"
    return repr(value)


def array_code(recipe: str) -> tuple[str, tuple[int, ...], str]:
    """A recipe as a numpy expression, its shape and its dtype."""
    literal = LITERAL.match(recipe)
    if literal is not None and literal[1] in DTYPES:
        values = json.loads(literal[2])
        return f'np.array({values}, "{DTYPES[literal[1]]}")', _shape(values), DTYPES[literal[1]]
    match = SHAPED.match(recipe)
    assert match is not None, recipe
    kind, how = match[1], match[3]
    shape = tuple(int(n) for n in match[2].split(",") if n.strip())
    text = _code(kind, shape, how)
    return f'np.array({text}, "{DTYPES[kind]}")', shape, DTYPES[kind]


def _shape(values: Any) -> tuple[int, ...]:
    return (len(values), *(_shape(values[0]) if values else ())) if isinstance(values, list) else ()


def _code(kind: str, shape: tuple[int, ...], how: str) -> str:
    bounds = RANGE.match(how)
    if kind == "perm":
        return f"rng.permutation({shape[0]})"
    if kind == "prob" or how.startswith("logprob"):
        text = f"rng.dirichlet(np.ones({shape[-1]}), {shape[:-1]})"
        return text if kind == "prob" else f"np.log({text})"
    if kind == "bool":
        return f"rng.random({shape}) < 0.5"
    if DTYPES[kind].startswith(("int", "uint")):
        low, high = map(float, bounds.groups()[:2]) if bounds else (0 if kind == "byte" else -5, 6)
        text = f"rng.integers({int(low)}, {int(high)}, {shape})"
    elif bounds:
        text = f"rng.uniform({bounds[1]}, {bounds[2]}, {shape})"
    elif how.startswith("ties"):
        text = f"rng.integers(-2, 3, {shape})"
    elif how.startswith("distinct"):
        count = _product(shape)
        text = f"(rng.permutation({count}).reshape({shape}) - {count // 2}) * 0.37 + 0.11"
    elif how.startswith("edges"):
        text = f"rng.choice([0.0, -0.0, 1e-30, 1e30, -1e30, 1.0, -1.0], {shape})"
    else:
        text = f"rng.standard_normal({shape})"
    if kind in ("complex", "cdouble"):
        text += f" + 1j * rng.standard_normal({shape})"
    if kind in ("sparse", "csr"):
        return f"{text} * (rng.random({shape}) < 0.34)"
    if how.startswith("spd"):
        return f"(a := {text}) @ a.swapaxes(-1, -2).conj() + {shape[-1]} * np.eye({shape[-1]})"
    if how.startswith(("lower", "upper")):
        return f"np.tri{how[0]}({text}) + {shape[-1]} * np.eye({shape[-1]})"
    return f"np.sort({text}, -1)" if how.endswith("sorted") else text


def _product(shape: Iterable[int]) -> int:
    found = 1
    for n in shape:
        found *= n
    return found
