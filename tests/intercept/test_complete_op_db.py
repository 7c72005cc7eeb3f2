"""torch's own operator database: every sample is recorded, and its result is not changed by that."""

import pytest

from optrace.trace.session import trace

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="torch's test utilities need it")

from oracles import TorchOracle, lacking  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

SAMPLES = 3
# Their results are uninitialised memory, or no tensors at all.
NOT_COMPARED = {
    "empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}


def flat(output):
    if isinstance(output, torch.Tensor):
        return [output]
    return [t for o in output for t in flat(o)] if isinstance(output, (list, tuple)) else []


def equal(a, b):
    if a.layout is not torch.strided or b.layout is not torch.strided:
        return str(a) == str(b)
    if a.dtype != b.dtype:
        return False
    if a.dtype is torch.complex32:
        a, b = a.to(torch.complex64), b.to(torch.complex64)
    if a.dtype.is_floating_point and a.dtype.itemsize == 1:
        a, b = a.to(torch.float32), b.to(torch.float32)
    return torch.equal(torch.nan_to_num(a.detach()), torch.nan_to_num(b.detach()))


def samples_of(op):
    dtype = (
        torch.float32
        if torch.float32 in op.supported_dtypes("cpu")
        else next(iter(op.supported_dtypes("cpu")), None)
    )
    if dtype is None:
        pytest.skip("not for the CPU")
    torch.manual_seed(0)
    found = []
    for sample in op.sample_inputs("cpu", dtype):
        found.append(sample)
        if len(found) == SAMPLES:
            break
    return found


def call(op, sample):
    """The result, or the type of the error."""
    torch.manual_seed(1)
    copied = torch.utils._pytree.tree_map(
        lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t,
        (sample.input, sample.args, sample.kwargs),
    )
    try:
        return flat(op(copied[0], *copied[1], **copied[2]))
    except Exception as error:
        return type(error)


def check(op):
    """Number of samples recorded."""
    samples = samples_of(op)
    for sample in samples:
        expected = call(op, sample)
        oracle = TorchOracle()
        with trace(level="meta", frameworks=["torch"]) as t, oracle:
            seen = call(op, sample)
        with trace(level="full", frameworks=["torch"]) as u:
            result = call(op, sample)
        assert not t.errors and not u.errors, (t.errors, u.errors)
        assert not lacking(oracle, t), lacking(oracle, t)
        for outcome in (seen, result):
            if isinstance(expected, type):
                assert outcome is expected
            elif op.name not in NOT_COMPARED:
                assert len(outcome) == len(expected)
                assert all(map(equal, outcome, expected))
    return len(samples)


def params(ops):
    return [
        pytest.param(op, id=f"{op.name}-{op.variant_test_name}" if op.variant_test_name else op.name)
        for op in ops
    ]


@pytest.mark.parametrize("op", params(op_db[::24]))
def test_a_sample_of_the_operators(op):
    check(op)


@pytest.mark.slow
@pytest.mark.parametrize("op", params(op_db))
def test_every_operator(op):
    check(op)
