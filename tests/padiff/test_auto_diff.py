"""Scripts written for PaDiff's ``auto_diff``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import paddle
import pytest
import torch

from optrace.errors import InputError
from optrace.padiff import LayerMap, add_special_init, assign_weight, auto_diff, check_report, create_model

from .conftest import Layer, Module


def test_equal_models_agree_and_others_do_not(array: np.ndarray, both: Any) -> None:
    assert auto_diff(Module(), Layer(), both(array), atol=1e-4) is True
    assert auto_diff(Module(), Layer(), both(array), auto_init=False, atol=1e-4) is False
    assert auto_diff(Layer(), Module(), array, auto_weights=True, options={"atol": 1e-4}) is True
    given = ({"x": torch.as_tensor(array)}, {"x": paddle.to_tensor(array[::-1].copy())})
    assert auto_diff(Module(), Layer(), given, atol=1e-4) is False


def test_a_layer_that_differs_is_opened(
    array: np.ndarray, both: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    class Norm(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = paddle.nn.Linear(24, 24), paddle.nn.LayerNorm(24, epsilon=1e-3)

        def forward(self, x: Any) -> Any:
            return self.norm(self.linear(x))

    class Port(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = torch.nn.Linear(24, 24), torch.nn.LayerNorm(24, eps=1e-5)

        def forward(self, x: Any) -> Any:
            return self.norm(self.linear(x))

    assert auto_diff(Port(), Norm(), both(array)) is False
    said = capsys.readouterr().out
    assert "forward: norm (LayerNorm)" in said and "<---  here" in said
    assert "eps (here epsilon) is 0.001, base has 1e-05" in said and "test_auto_diff.py" in said


@pytest.mark.parametrize("single_step", [False, True])
def test_code_between_layers(single_step: bool, array: np.ndarray, both: Any) -> None:
    assert auto_diff(Module(), Layer(), both(array), single_step=single_step) is True
    assert auto_diff(Module(), Layer(scale=1.01), both(array), single_step=single_step) is False
    pushed = Layer(push=0.01)
    assert auto_diff(Module(), pushed, both(array), single_step=single_step) is False
    assert auto_diff(Module(), pushed, both(array), single_step=single_step, diff_phase="forward") is True


def test_forward_alone_leaves_no_gradients(array: np.ndarray, both: Any) -> None:
    module, layer = Module(), Layer()
    assert auto_diff(module, layer, both(array), diff_phase="forward") is True
    assert all(p.grad is None for p in [*module.parameters(), *layer.parameters()])


def test_losses_and_optimizers(array: np.ndarray, both: Any) -> None:
    label = np.random.default_rng(1).standard_normal((16, 6)).astype("float32")
    losses = [
        partial(torch.nn.MSELoss(), target=torch.tensor(label)),
        partial(paddle.nn.MSELoss(), label=paddle.to_tensor(label)),
    ]
    assert auto_diff(Module(), Layer(), both(array), loss_fns=losses, atol=1e-4) is True
    assert auto_diff(Module(), Layer(), both(array), [losses[0], lambda out: losses[1](out) * 2]) is False
    for rate, same in ((0.01, True), (0.02, False)):
        module, layer = Module(), Layer()
        optimizers = [
            torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9),
            paddle.optimizer.Momentum(rate, 0.9, parameters=layer.parameters()),
        ]
        assert auto_diff(module, layer, both(array), losses, optimizers, steps=3) is same


def test_updates_as_functions(array: np.ndarray, both: Any) -> None:
    module, layer = Module(), Layer()
    ours = torch.optim.SGD(module.parameters(), lr=0.1)
    theirs = paddle.optimizer.SGD(0.1, parameters=layer.parameters())

    def second() -> None:
        theirs.step()
        theirs.clear_grad()

    assert auto_diff(module, layer, both(array), optimizers=[ours.step, second], steps=2) is True


def test_a_tolerance_holds_for_one_comparison(array: np.ndarray, both: Any) -> None:
    module, layer = Module(), Layer(scale=1.001)
    assert auto_diff(module, layer, both(array), atol=1.0) is True
    assert auto_diff(module, layer, both(array)) is False


def test_agreeing_means_are_not_enough(array: np.ndarray, both: Any) -> None:
    class Shuffled(Layer):
        def forward(self, x: Any) -> Any:
            return super().forward(x).flip(0)

    assert auto_diff(Module(), Shuffled(), both(array), compare_mode="mean", atol=1e-4) is False


def test_equal_class_names_do_not_share_a_folder(array: np.ndarray) -> None:
    one, two = create_model(Layer()), create_model(Layer())
    assert one.dump_path != two.dump_path
    given = ({"x": paddle.to_tensor(array)}, {"x": paddle.to_tensor(array)})
    assert auto_diff(one, two, given, auto_init=False) is False
    assert auto_diff(one, two, given) is True


def test_lists_and_the_dump_of_auto_diff(array: np.ndarray, both: Any) -> None:
    layer, module = Layer(), Module()
    proxies = create_model(module, "module"), create_model(layer, "layer")
    proxies[0].update_white_list([module.linear1, module.linear2], "all")
    proxies[1].update_white_list([layer.linear1, layer.linear2], "all")
    proxies[1].update_black_list([layer.linear1], "all")
    assert assign_weight(*proxies) is True
    assert auto_diff(*proxies, both(array), atol=1e-4) is True
    assert check_report(f"{proxies[0].dump_path}/auto_diff", f"{proxies[1].dump_path}/auto_diff") is True


class Recurrent(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.words = paddle.nn.Embedding(7, 12)
        self.lstm = paddle.nn.LSTM(12, 8, 2, time_major=True)

    def forward(self, x: Any) -> Any:
        return self.lstm(self.words(x))[0]


class TorchRecurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(7, 12)
        self.lstm = torch.nn.LSTM(12, 8, 2)

    def forward(self, x: Any) -> Any:
        return self.lstm(self.words(x))[0]


def test_layer_maps(both: Any) -> None:
    tokens = np.arange(12).reshape(6, 2) % 7
    layer, module = Recurrent(), TorchRecurrent()
    assert auto_diff(module, layer, both(tokens), layer_map={module.lstm: layer.lstm}) is True
    assert auto_diff(layer, module, both(tokens)[::-1], auto_weights=True, layer_map={layer.lstm: module.lstm},
                     options={"atol": 1e-4}) is True  # fmt: skip
    one, two = create_model(TorchRecurrent()), create_model(Recurrent())
    assert one.auto_layer_map("base") is True and two.auto_layer_map("raw") is True
    assert one.report.layer_map == two.report.layer_map == ["lstm"]
    assert auto_diff(one, two, both(tokens)) is True
    layer_map = LayerMap()
    layer, module = Recurrent(), TorchRecurrent()
    assert layer_map.auto(module, layer) is True
    assert auto_diff(module, layer, both(tokens), layer_map=layer_map) is True


def test_wrappers_on_one_side(array: np.ndarray, both: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing(paddle.nn.Layer):
        def forward(self, x: Any) -> Any:
            return x

    class Wrapped(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.nothing = paddle.nn.Sequential(Layer(), paddle.nn.Identity()), Nothing()

        def forward(self, x: Any) -> Any:
            return self.nothing(self.inner(x))

    assert auto_diff(Module(), Wrapped(), both(array)) is True
    for name in ("PADIFF_SIKP_WRAP_LAYER", "OPTRACE_SKIP_WRAP_LAYER"):
        monkeypatch.setenv(name, "TRUE")
        wrapped = create_model(Wrapped())
        assert wrapped.selection.names() == {"", "inner.0.linear1", "inner.0.linear2"}
        monkeypatch.delenv(name)


def test_special_init(array: np.ndarray, both: Any) -> None:
    class Odd(Layer):
        pass

    class Even(Module):
        pass

    def carry(module: Any, layer: Any) -> None:
        for name, parameter in module.named_parameters():
            dict(layer.named_parameters())[name].set_value(parameter.detach().numpy().T)

    add_special_init("torch", "Even", "paddle", "Odd", carry)

    class Net(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.odd = Odd()

        def forward(self, x: Any) -> Any:
            return self.odd(x)

    class Port(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.even = Even()

        def forward(self, x: Any) -> Any:
            return self.even(x)

    base, raw = create_model(Port()), create_model(Net())
    base.set_layer_map([base.model.even])
    raw.set_layer_map([raw.model.odd])
    assert auto_diff(base, raw, both(array)) is True


def test_weights_that_do_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    class Wide(Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear2 = torch.nn.Linear(24, 9)

    assert assign_weight(Wide(), Layer()) is False
    said = capsys.readouterr().out
    assert "linear2.weight" in said and "(skip)" in said


def test_the_calls_too(array: np.ndarray, both: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADIFF_API_CHECK", "ON")
    assert auto_diff(Module(), Layer(), both(array)) is True
    module, layer = Module(), Layer(scale=1.01)
    assert auto_diff(module, layer, both(array)) is False


def test_bad_options(array: np.ndarray, both: Any) -> None:
    with pytest.raises(InputError, match="diff_phase"):
        auto_diff(Module(), Layer(), both(array), diff_phase="sideways")
    with pytest.raises(InputError, match="compare_mode"):
        auto_diff(Module(), Layer(), both(array), compare_mode="roughly")
    with pytest.raises(InputError, match="atol"):
        auto_diff(Module(), Layer(), both(array), atol=-1.0)
    with pytest.warns(UserWarning, match="tolerance"):
        auto_diff(Module(), Layer(), both(array), tolerance=1)
