"""Both adapters give the same answers about the same values."""

import ml_dtypes
import numpy as np
import pytest

from optrace import frameworks

paddle = pytest.importorskip("paddle")
torch = pytest.importorskip("torch")

DTYPES = [
    "float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2",
    "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "complex128",
]  # fmt: skip


@pytest.fixture(params=["torch", "paddle"])
def fw(request):
    return frameworks.get(request.param)


def make(dtype, shape):
    values = np.arange(int(np.prod(shape)), dtype="float32").reshape(shape)
    return values.astype(getattr(ml_dtypes, dtype, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (5,), (2, 3)])
def test_round_trip(fw, dtype, shape):
    if fw.name == "paddle" and dtype.startswith("float8") and not hasattr(paddle, dtype):
        pytest.skip("this paddle has no fp8")
    array = make(dtype, shape)
    tensor = fw.from_numpy(array)
    assert fw.is_tensor(tensor)
    info = fw.info(tensor)
    assert (info.shape, info.dtype, info.device, info.requires_grad) == (shape, dtype, "cpu", False)
    assert info.offset == 0
    assert 0 in shape or len(info.strides) == len(shape)  # paddle can't tell them of an empty tensor
    back = fw.to_numpy(tensor)
    assert back.dtype == array.dtype and back.shape == shape
    assert back.tobytes() == array.tobytes()
    assert fw.dtype_name(fw.dtype(dtype)) == dtype
    assert fw.dtype_name(tensor.dtype) == dtype


def test_from_numpy_copies_whatever_the_memory_order(fw):
    array = np.arange(6.0, dtype="float32").reshape(2, 3)
    tensor = fw.from_numpy(array.T[::-1])
    expected = array.T[::-1].copy()
    array[:] = -1
    assert np.array_equal(fw.to_numpy(tensor), expected)
    assert np.array_equal(fw.to_numpy(fw.from_numpy(np.arange(3, dtype=">i4"))), [0, 1, 2])


def test_from_numpy_with_gradient(fw):
    tensor = fw.from_numpy(np.ones(2, "float32"), requires_grad=True)
    assert fw.info(tensor).requires_grad
    assert np.array_equal(fw.to_numpy(tensor * 2), [2, 2])


def test_from_numpy_refuses_objects(fw):
    with pytest.raises(TypeError):
        fw.from_numpy(np.array([object()]))


def test_to_numpy_is_a_copy(fw):
    tensor = fw.from_numpy(np.ones(3, "float32"))
    array, kept = fw.to_numpy(tensor), fw.snapshot(tensor)
    tensor.add_(tensor)
    assert np.array_equal(array, [1, 1, 1])
    assert np.array_equal(fw.to_numpy(kept), [1, 1, 1])


def test_version_goes_up_in_place(fw):
    tensor = fw.from_numpy(np.ones(3, "float32"))
    before = fw.inplace_version(tensor)
    tensor.add_(tensor)
    assert fw.inplace_version(tensor) > before


def test_views_share_storage(fw):
    tensor = fw.from_numpy(np.arange(12, dtype="float64").reshape(3, 4))
    column = tensor[:, 1]
    a, b = fw.info(tensor), fw.info(column)
    assert a.storage == b.storage != fw.info(fw.from_numpy(np.zeros(2))).storage
    assert b.strides == (4,) and b.offset == 1
    assert np.array_equal(fw.to_numpy(column), [1, 5, 9])


def test_conjugate(fw):
    tensor = fw.from_numpy(np.array([1 + 2j, 3 - 1j], "complex64"))
    assert np.array_equal(fw.to_numpy(tensor.conj()), np.array([1 - 2j, 3 + 1j], "complex64"))
    assert np.array_equal(fw.to_numpy(tensor.conj().imag()) if fw.name == "paddle" else
                          fw.to_numpy(tensor.conj().imag), [-2, 1])  # fmt: skip


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse(fw, layout):
    dense = np.array([[0, 2, 0], [3, 0, 0]], "float32")
    tensor = fw.from_numpy(dense)
    if fw.name == "torch":
        sparse = tensor.to_sparse() if layout == "coo" else tensor.to_sparse_csr()
    else:
        sparse = tensor.to_sparse_coo(2) if layout == "coo" else tensor.to_sparse_csr()
    info = fw.info(sparse)
    assert fw.is_tensor(sparse) and info.shape == (2, 3) and info.strides is None
    assert fw.inplace_version(sparse) >= 0
    assert np.array_equal(fw.to_numpy(sparse), dense)
    assert np.array_equal(fw.to_numpy(fw.snapshot(sparse)), dense)


def test_other_objects_are_no_tensors(fw):
    other = frameworks.get("paddle" if fw.name == "torch" else "torch")
    for obj in (
        None,
        1,
        "x",
        np.zeros(2),
        other.from_numpy(np.zeros(2)),
        [],
        type(fw.from_numpy(np.zeros(1))),
    ):
        assert not fw.is_tensor(obj)
    for obj in (None, "float32", np.dtype("float32"), other.dtype("float32"), [], {}):
        assert fw.dtype_name(obj) is None


def test_assign_keeps_the_dtype_and_refuses_other_shapes(fw):
    tensor = fw.from_numpy(np.zeros((2, 3), "float32"), requires_grad=True)
    before = fw.inplace_version(tensor)
    fw.assign(tensor, np.arange(6, dtype="float64").reshape(2, 3))
    assert fw.info(tensor).dtype == "float32" and fw.info(tensor).requires_grad
    assert fw.inplace_version(tensor) > before
    assert np.array_equal(fw.to_numpy(tensor), np.arange(6).reshape(2, 3))
    with pytest.raises(ValueError):
        fw.assign(tensor, np.zeros(3))
    fp8 = fw.name != "paddle" or hasattr(paddle, "float8_e4m3fn")
    for dtype in ("bfloat16", *(("float8_e4m3fn",) if fp8 else ())):
        low = fw.from_numpy(np.zeros(2).astype(getattr(ml_dtypes, dtype)))
        fw.assign(low, np.array([1.5, -2], "float32"))
        assert fw.info(low).dtype == dtype
        assert np.array_equal(fw.to_numpy(low).astype("float32"), [1.5, -2])


def test_random_state_shows_draws_and_comes_back(fw):
    draw = (lambda: torch.randn(3)) if fw.name == "torch" else (lambda: paddle.randn([3]))
    fw.seed(3)
    start = fw.rng_state()
    assert start == fw.rng_state()
    first = fw.to_numpy(draw())
    assert start != fw.rng_state()
    fw.set_rng_state(start)
    assert start == fw.rng_state()
    assert np.array_equal(first, fw.to_numpy(draw()))


class TorchNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = torch.nn.BatchNorm1d(3)
        self.a = torch.nn.Linear(3, 3)
        self.b = self.a
        self.a.bias.requires_grad_(False)


class PaddleNet(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.bn = paddle.nn.BatchNorm1D(3)
        self.a = paddle.nn.Linear(3, 3)
        self.b = self.a
        self.a.bias.stop_gradient = True
        self.rnn = paddle.nn.LSTM(3, 2)


def test_module_tree():
    t, p = frameworks.get("torch"), frameworks.get("paddle")
    tm, pm = TorchNet(), PaddleNet()
    assert t.is_module(tm) and not t.is_module(pm) and p.is_module(pm) and not p.is_module(tm)
    assert [n for n, _ in t.named_modules(tm)] == ["", "bn", "a"]
    assert [n for n, _ in p.named_modules(pm)][:3] == ["", "bn", "a"]
    assert [n for n, _ in t.named_parameters(tm)] == ["bn.weight", "bn.bias", "a.weight", "a.bias"]
    assert [n for n, _ in p.named_parameters(pm)][:4] == ["bn.weight", "bn.bias", "a.weight", "a.bias"]
    assert [n for n, _ in t.named_buffers(tm)] == [
        "bn.running_mean",
        "bn.running_var",
        "bn.num_batches_tracked",
    ]
    assert [n for n, _ in p.named_buffers(pm)] == ["bn._mean", "bn._variance"]


def test_optimizer_hooks(fw):
    seen = []
    undo = fw.optimizer_hooks(lambda o: seen.append("before"), lambda o: seen.append("after"))
    weight = fw.from_numpy(np.ones(2, "float32"), requires_grad=True)
    try:
        if fw.name == "torch":
            optimizers = [torch.optim.SGD([weight], 0.1), torch.optim.AdamW([weight], 0.1)]
        else:
            weight = paddle.nn.Linear(1, 2).weight
            optimizers = [
                cls(0.1, parameters=[weight]) for cls in (paddle.optimizer.SGD, paddle.optimizer.AdamW)
            ]
        for optimizer in optimizers:
            weight.sum().backward()
            optimizer.step()
    finally:
        undo()
    assert seen == ["before", "after"] * 2
    weight.sum().backward()
    optimizers[0].step()
    assert len(seen) == 4


def test_torch_tensors_without_values():
    fw = frameworks.get("torch")
    meta = torch.empty(2, 3, device="meta")
    assert fw.is_tensor(meta) and fw.info(meta).device == "meta" and fw.info(meta).shape == (2, 3)
    with pytest.raises(TypeError):
        fw.to_numpy(meta)
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert not fw.is_tensor(torch.empty(2))
    inside = []
    torch.vmap(lambda x: (inside.append(fw.is_tensor(x)), x.sum())[1])(torch.ones(2, 3))
    torch.func.grad(lambda x: (inside.append(fw.is_tensor(x)), x.sum())[1])(torch.ones(3))
    assert inside == [False, False]
    assert not fw.is_tensor(torch.nn.LazyLinear(3).weight)


def test_torch_special_tensors():
    fw = frameworks.get("torch")
    with torch.inference_mode():
        tensor = torch.ones(2)
        fw.assign(tensor, np.array([3.0, 4.0]))
    assert fw.inplace_version(tensor) == 0
    fw.assign(tensor, np.array([1.0, 2.0]))
    assert np.array_equal(fw.to_numpy(tensor), [1, 2])
    quantised = torch.quantize_per_tensor(torch.tensor([0.5, 1.0]), 0.5, 0, torch.qint8)
    assert fw.info(quantised).dtype == "qint8"
    assert np.array_equal(fw.to_numpy(quantised), [0.5, 1.0])
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=layout)
        info = fw.info(nested)
        assert info.shape == (2, 2, 3) and info.strides is None
        assert fw.to_numpy(nested).sum() == 9
        assert fw.inplace_version(nested) == 0

    class Tagged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("the adapter must not call into the subclass")

    tagged = torch.ones(2, 3).as_subclass(Tagged)
    assert fw.is_tensor(tagged) and fw.info(tagged).shape == (2, 3)
    assert fw.to_numpy(tagged).sum() == 6
    assert fw.snapshot(tagged) is not tagged


def test_torch_unfused_is_restored():
    fw = frameworks.get("torch")
    with pytest.raises(KeyError), fw.unfused():
        assert not torch.backends.mha.get_fastpath_enabled()
        raise KeyError
    assert torch.backends.mha.get_fastpath_enabled()


def test_paddle_values_that_are_no_tensors():
    fw = frameworks.get("paddle")
    assert not fw.is_tensor(next(b for _, b in paddle.nn.LSTM(2, 2).named_buffers()))
    paddle.enable_static()
    try:
        assert not fw.is_tensor(paddle.static.data("x", [2, 3]))
    finally:
        paddle.disable_static()
