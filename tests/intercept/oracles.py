"""Second observers that know nothing of the patches, and what they say the trace lacks."""

from collections import Counter
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from optrace.frameworks.torch_targets import NOT_OP_DUNDERS, NOT_OPS

# Attributes that compute or view; the others read what a tensor is.
VIEWS = {"T", "mT", "H", "mH", "real", "imag", "data"}


class TorchOracle(TorchFunctionMode):
    """Counts every public tensor operation that reaches torch from the program."""

    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = public_name(func)
        if name is not None:
            self.seen[name] += 1
        return func(*args, **(kwargs or {}))


def public_name(func):
    short = getattr(func, "__name__", "")
    if short in ("__get__", "__set__", "__delete__"):
        attribute = getattr(getattr(func, "__self__", None), "__name__", "")
        return attribute if short == "__get__" and attribute in VIEWS else None
    name = resolve_name(func) or ""
    private = short.startswith("_") and not short.endswith("__")
    not_op = (
        short in NOT_OPS or short.startswith("is_") or (short in NOT_OP_DUNDERS and short != "__getitem__")
    )
    if not_op or private or not name.startswith("torch.") or name.startswith("torch._C."):
        return None
    return name.rpartition(".")[2]


# torch passes the method an operator stands for; the trace holds the operator that was written.
OPERATORS = {
    "truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift", "invert": "bitwise_not",
}  # fmt: skip


def recorded(trace):
    found = Counter()
    for call in trace.calls:
        if call.framework == "torch":
            short = call.api.rpartition(".")[2]
            found[short] += 1
            if short.startswith("__") and short.endswith("__"):
                found.update(written_as(short[2:-2]))
    return found


def written_as(operator):
    names = {operator}
    if operator[0] in "ri":
        names.add(operator[1:])
    for name in list(names):
        plain = OPERATORS.get(name, name)
        names |= {plain, f"{plain}_", f"__{name}__"}
    return names


def lacking(oracle, trace):
    """Operations that the oracle saw more often than the trace holds them."""
    # One builtin, several names: what resolve_name calls one way stands under the preferred one in the trace.
    return {
        name: count for name, count in (oracle.seen - recorded(trace)).items() if not aliased(name, trace)
    }


def aliased(name, trace):
    target = getattr(torch, name, None) or getattr(torch.Tensor, name, None)
    apis = {c.api for c in trace.calls}
    return any(_resolve(api) == target for api in apis)


def _resolve(api):
    obj = torch
    for part in api.split(".")[1:]:
        obj = getattr(obj, part, None)
    return obj


@contextmanager
def watched_c_ops(missed):
    """Notes each call of ``paddle._C_ops`` that is made while no recorded call is open."""
    import paddle

    from optrace.frameworks.paddle_targets import C_NOT_OPS
    from optrace.intercept import hub

    originals = {
        name: value
        for name, value in vars(paddle._C_ops).items()
        if type(value).__name__ in ("CallWrapper", "builtin_function_or_method")
        and not name.startswith(C_NOT_OPS)
    }

    def watch(name, function):
        def call(*args, **kwargs):
            recorder = hub._hubs["paddle"]._observer
            if recorder is not None and not recorder.busy:
                before = len(recorder.trace.calls)
                result = function(*args, **kwargs)
                if len(recorder.trace.calls) == before and not recorder.thread.open:
                    missed[name] += 1
                return result
            return function(*args, **kwargs)

        return call

    for name, value in originals.items():
        setattr(paddle._C_ops, name, watch(name, value))
    try:
        yield
    finally:
        for name, value in originals.items():
            setattr(paddle._C_ops, name, value)
