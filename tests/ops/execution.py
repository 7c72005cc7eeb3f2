"""Runs one name of a row on the row's example inputs, forward and backward."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from recipes import SPARSE, array, is_recipe

from optrace.ops.binding import signature_for
from optrace.ops.compare import pair, translate
from optrace.ops.reading import Side
from optrace.ops.schema import SWITCHES, Row
from optrace.ops.signature import MISSING, parse
from optrace.ops.table import table
from optrace.trace.records import DtypeRef

# Parameters that say how, not what, and have no default in lower names.
FLAGS = {"cudnn_enabled": True}


class Array:
    """An example tensor before it is given to a framework."""

    def __init__(self, values: np.ndarray, kind: str = "") -> None:
        self.values = values
        self.kind = kind
        self.shape = values.shape
        self.dtype = values.dtype


def example(row: Row, index: int, framework: str = "torch") -> dict[str, Any]:
    """The recipe's arguments with arrays made; dtypes, dimensions and subscripts as records hold them."""
    rng = np.random.default_rng(sum(map(ord, row.name)) + index)
    return {
        name: _made(row, name, value, rng)
        for name, value in row.examples[index].items()
        if name not in SWITCHES
    }


def differentiable(row: Row, index: int) -> bool:
    """Whether the gradients of an example are compared: ``grad = false`` in the example says no."""
    inputs = row.examples[index]
    real = [
        v
        for value in inputs.values()
        for v in (value if isinstance(value, list) else [value])
        if is_recipe(v)
    ]
    floats = any(v.startswith(("float", "double", "prob", "complex")) for v in real)
    return row.grad and floats and bool(inputs.get("grad", True)) and not by_distribution(row, index)


def by_distribution(row: Row, index: int) -> bool:
    """Whether an example's draws are compared as samples: ``distribution = true`` in the example says so."""
    return bool(row.examples[index].get("distribution", False))


def _made(row: Row, name: str, value: Any, rng: np.random.Generator) -> Any:
    if is_recipe(value):
        return Array(array(value, rng), value.partition("[")[0])
    if isinstance(value, str) and value.startswith("index: "):
        return subscript(value.removeprefix("index: "))
    if name == "dtype" and isinstance(value, str):
        return DtypeRef(value)
    if isinstance(value, list):
        return [_made(row, name, v, rng) for v in value]
    return value


def subscript(text: str) -> Any:
    """The object that ``x[text]`` passes."""
    return eval(f"_[{text}]", {"_": _Subscript(), "slice": slice})


class _Subscript:
    def __getitem__(self, index: Any) -> Any:
        return index


def carried(row: Row, args: Mapping[str, Any], base: str, raw: str) -> dict[str, Any] | None:
    """Arguments of ``base`` (a name of the row) as ``raw`` takes them, tensors included."""
    there = translate(base, args, raw, row)
    sides = pair(base, args, raw, None, None, row)
    if there is None or sides is None:
        return None
    found = dict(there)
    for name, value in args.items():
        if has_array(value):
            common = sides[0].common(name)
            found[sides[1].own(common)] = value
    order = sides[1].signature.names
    return {n: found[n] for n in (*order, *(k for k in found if k not in order)) if n in found}


def has_array(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(has_array, value))
    return isinstance(value, Array)


class Run:
    """One call of a name (or of ``replace`` in its stead): its results, and gradients by shared name."""

    def __init__(
        self, row: Row, api: str, args: Mapping[str, Any], grad: bool = False, replace: Any = None
    ) -> None:
        self.framework = table().side_of(row, api)
        self.row = row
        self.api = api
        self.leaves: dict[str, Any] = {}
        found = signature_for(api, args, row)
        assert found is not None
        side = Side(self.framework, row, found[1], dict(args), {})
        live = {n: self._live(side.common(n), v, grad) for n, v in args.items()}
        last = api.rpartition(".")[2]
        inplace = grad and (row.inplace or (last.endswith("_") and not last.endswith("__")))
        first = next(iter(live), None)
        if inplace and first is not None:
            live[first] = live[first] + 0  # a leaf can't be changed in place
        public = parse(row.listed(self.framework)[0]).defaults()
        unset = [p.name for p in found[1].parameters if p.default is MISSING and p.name not in live]
        live.update({n: {**public, **FLAGS}[n] for n in unset if n in public or n in FLAGS})
        positional, keyword = found[1].arrange(live)
        called = function(api) if replace is None else replace
        self.raw = called(*positional, **keyword)
        changed = first and (last == "__setitem__" or (row.inplace and self.raw is None))
        self.outputs = list(flat(live[first] if changed else self.raw))
        chosen = getattr(row.results, self.framework)
        if chosen and len(self.outputs) > 1:
            self.outputs = [self.outputs[i] for i in chosen]

    def _live(self, name: str, value: Any, grad: bool) -> Any:
        if isinstance(value, (list, tuple)):
            made = [self._live(f"{name}.{i}", v, grad) for i, v in enumerate(value)]
            return made if isinstance(value, list) else tuple(made)
        if isinstance(value, DtypeRef):
            return dtype(self.framework, value.name)
        if not isinstance(value, Array):
            return copy.copy(value)
        values = value.values
        if self.framework == "paddle" and name in self.row.layout:
            values = np.ascontiguousarray(np.transpose(values, self.row.layout[name]))
        made = self._tensor(name, values, grad)
        return sparse(self.framework, made, value.kind) if value.kind in SPARSE else made

    def _tensor(self, name: str, values: np.ndarray, grad: bool) -> Any:
        differentiable = grad and values.dtype.kind in "fc"
        if self.framework == "torch":
            import torch

            made = torch.from_numpy(np.array(values)).requires_grad_(differentiable)
        else:
            import paddle

            made = paddle.to_tensor(np.array(values), stop_gradient=not differentiable)
        if differentiable:
            self.leaves[name] = made
        return made

    def arrays(self) -> list[np.ndarray]:
        """The results as arrays in torch's layout."""
        found = [to_numpy(o) for o in self.outputs]
        order = self.row.layout.get("out")
        if order and self.framework == "paddle":
            found = [np.transpose(a, np.argsort(order)) for a in found]
        return found

    def gradients(self) -> dict[str, np.ndarray]:
        """Gradients of a fixed weighted sum of the float results, in torch's layout."""
        total: Any = None
        rng = np.random.default_rng(7)
        order = self.row.layout.get("out")
        for output, values in zip(self.outputs, self.arrays()):
            if values.dtype.kind not in "fc":
                continue
            weights = np.asarray(rng.standard_normal(values.shape) + 0.5)
            if order and self.framework == "paddle":
                weights = np.transpose(weights, order)
            term = self._weighted(output, weights)
            total = term if total is None else total + term
        if total is None or not self._differentiable(total):
            return {}
        total.backward()
        grads = {n: to_numpy(g.grad) for n, g in self.leaves.items() if g.grad is not None}
        if self.framework == "paddle":
            grads = {
                n: np.transpose(g, np.argsort(self.row.layout[n])) if n in self.row.layout else g
                for n, g in grads.items()
            }
        return grads

    def _differentiable(self, total: Any) -> bool:
        return bool(total.requires_grad if self.framework == "torch" else not total.stop_gradient)

    def _weighted(self, output: Any, weights: np.ndarray) -> Any:
        if self.framework == "torch":
            import torch

            if output.is_complex():
                output, weights = (
                    torch.view_as_real(output.resolve_conj()),
                    np.stack([weights, weights * 0.5], -1),
                )
            return (output.double() * torch.from_numpy(np.ascontiguousarray(weights))).sum()
        import paddle

        if output.is_complex():
            output, weights = paddle.as_real(output), np.stack([weights, weights * 0.5], -1)
        return (output.astype("float64") * paddle.to_tensor(np.ascontiguousarray(weights))).sum()


def sparse(framework: str, tensor: Any, kind: str) -> Any:
    if kind == "csr":
        return tensor.to_sparse_csr()
    return tensor.to_sparse() if framework == "torch" else tensor.to_sparse_coo(tensor.ndim)


def flat(result: Any) -> Iterator[Any]:
    if isinstance(result, (list, tuple)):
        for item in result:
            yield from flat(item)
    elif isinstance(result, dict):
        for item in result.values():
            yield from flat(item)
    elif result is not None:
        yield result


def to_numpy(value: Any) -> np.ndarray:
    # paddle's sparse tensors end the process when asked for .numpy()
    torchs = str(getattr(value, "layout", "")).startswith("torch.sparse")
    if torchs or (hasattr(value, "is_dense") and not value.is_dense()):
        value = value.to_dense()
    if hasattr(value, "detach"):
        value = value.detach()
        if hasattr(value, "resolve_conj"):
            value = value.resolve_conj().resolve_neg()
        if "bfloat16" in str(value.dtype):
            value = value.float() if hasattr(value, "float") else value.astype("float32")
        return np.array(value.numpy(force=True) if hasattr(value, "resolve_conj") else value.numpy())
    if isinstance(value, np.ndarray):
        return value
    text = str(value)
    if "." in text and text.split(".")[0] in ("torch", "paddle"):
        return np.array(text.split(".")[1])
    return np.asarray(value)


def dtype(framework: str, name: str) -> Any:
    if framework == "torch":
        import torch as module
    else:
        import paddle as module  # type: ignore[no-redef]
    return getattr(module, name)


def here(api: str) -> bool:
    """Whether this version of the framework has the name; another version may lack it."""
    try:
        function(api)
    except AttributeError:
        return False
    return True


def function(api: str) -> Any:
    """What a name stands for. Raises AttributeError when this version lacks it."""
    import importlib

    parts = api.split(".")
    found: Any = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        if not hasattr(found, part):
            try:
                importlib.import_module(".".join(parts[:i]))
            except ImportError as error:
                raise AttributeError(f"{api} is not in this version") from error
        found = getattr(found, part)
    if not callable(found):
        return lambda tensor: getattr(tensor, parts[-1])
    return found


def close(a: np.ndarray, b: np.ndarray, tolerance: float = 0.0) -> str:
    """Empty when two results agree, else what differs."""
    if a.shape != b.shape:
        return f"shapes {a.shape} and {b.shape}"
    if a.dtype.kind in "US" or b.dtype.kind in "US":
        return "" if np.array_equal(a, b) else f"{a} and {b}"
    if a.dtype.kind == "b" or b.dtype.kind == "b":
        return "" if np.array_equal(a.astype(bool), b.astype(bool)) else "truth values differ"
    wide = "complex128" if "c" in (a.dtype.kind, b.dtype.kind) else "float64"
    x, y = a.astype(wide), b.astype(wide)
    bound = tolerance or 3e-5
    scale = max(1.0, float(np.max(np.abs(x[np.isfinite(x)]), initial=0.0)))
    if np.allclose(x, y, rtol=bound, atol=bound * min(scale, 100.0), equal_nan=True):
        return ""
    worst = np.nanmax(np.abs(x - y)) if x.size else 0.0
    return f"values differ by up to {worst:.3g}"


def seed() -> None:
    """The same draws in every run of the tests."""
    import paddle
    import torch

    torch.manual_seed(20)
    paddle.seed(21)


def alike(a: np.ndarray, b: np.ndarray) -> str:
    """Empty when two samples are of one distribution (Kolmogorov-Smirnov at 1e-4), else what differs."""
    if a.shape != b.shape:
        return f"shapes {a.shape} and {b.shape}"
    # rounded, for a value that is drawn often may differ in its last bits
    x, y = (np.sort(np.round(v.astype("float64"), 4), axis=None) for v in (a, b))
    both = np.concatenate([x, y])
    steps = np.searchsorted(x, both, "right") - np.searchsorted(y, both, "right")
    distance = np.abs(steps).max() / x.size
    bound = 2.23 * np.sqrt(2 / x.size)
    return "" if distance <= bound else f"values of two distributions, {distance:.2g} apart"


def check(row: Row, index: int, base: str, raw: str, base_args: Mapping[str, Any], grad: bool) -> str:
    """Empty when both names give the same results (and gradients), else what differs."""
    raw_args = base_args if base == raw else carried(row, base_args, base, raw)
    if raw_args is None:
        return f"the arguments {sorted(base_args)} can't be said to {raw}"
    if by_distribution(row, index):
        seed()
    a = Run(row, base, base_args, grad)
    b = Run(row, raw, raw_args, grad)
    left, right = a.arrays(), b.arrays()
    if len(left) != len(right):
        return f"{len(left)} results and {len(right)}"
    for i, (x, y) in enumerate(zip(left, right)):
        problem = alike(x, y) if by_distribution(row, index) else close(x, y, row.tolerance)
        if problem:
            return f"result {i}: {problem}"
    if not grad:
        return ""
    mine, theirs = a.gradients(), b.gradients()
    # paddle gives no gradient to some arguments (labels, weights of lerp): those that both give count
    shared = [n for n in mine if n in theirs]
    if not shared:
        return f"gradients for {sorted(mine)} and {sorted(theirs)}"
    for name in shared:
        x = mine[name]
        problem = close(x, theirs[name], (row.tolerance or 3e-5) * 5)
        if problem:
            return f"gradient of {name}: {problem}"
    return ""
