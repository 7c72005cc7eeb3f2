"""Dumps: written where one framework is, compared where none is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest
import torch
from paddle.distributed.fleet.utils import recompute

from optrace.errors import ComparisonError, TraceError
from optrace.padiff import (
    assign_weight,
    check_dataloader,
    check_grads,
    check_params,
    check_report,
    check_weights,
    create_model,
)

from .conftest import Layer, Module


def run(proxy: Any, given: Any, optimizer: Any = None, steps: int = 1, every: int | None = None) -> None:
    for _ in range(steps):
        proxy.backward(proxy(given).mean())
        if optimizer is not None:
            optimizer.step()
        proxy.try_dump(every)


def test_steps_of_a_training(array: np.ndarray) -> None:
    layer, module = create_model(Layer()), create_model(Module())
    assert assign_weight(layer, module) is True
    ours = paddle.optimizer.Adam(0.001, parameters=layer.model.parameters())
    theirs = torch.optim.Adam(module.model.parameters(), lr=0.001)
    run(layer, paddle.to_tensor(array), ours, steps=5, every=2)
    run(module, torch.as_tensor(array), theirs, steps=5, every=2)
    assert sorted(p.name for p in Path(layer.dump_path).iterdir()) == ["step_0", "step_2", "step_4"]
    for step in (0, 2, 4):
        paths = f"{layer.dump_path}/step_{step}", f"{module.dump_path}/step_{step}"
        assert check_report(*paths) is True
        assert check_params(*paths) is True
    assert check_report(layer.dump_path, module.dump_path) is True
    shutil.rmtree(f"{module.dump_path}/step_4")
    with pytest.raises(TraceError, match="step_4"):
        check_report(layer.dump_path, module.dump_path)


def test_other_weights_and_other_updates(array: np.ndarray) -> None:
    layer, module = create_model(Layer(), dump_freq=2), create_model(Module(), dump_freq=2)
    run(layer, paddle.to_tensor(array))
    run(module, torch.as_tensor(array))
    paths = f"{layer.dump_path}/step_0", f"{module.dump_path}/step_0"
    for check in (check_report, check_params, check_weights, check_grads):
        assert check(*paths) is False
    layer, module = create_model(Layer()), create_model(Module())
    assign_weight(layer, module)
    run(layer, paddle.to_tensor(array), paddle.optimizer.SGD(0.1, parameters=layer.model.parameters()))
    run(module, torch.as_tensor(array), torch.optim.SGD(module.model.parameters(), lr=0.2))
    paths = f"{layer.dump_path}/step_0", f"{module.dump_path}/step_0"
    assert check_report(*paths) is True and check_grads(*paths) is True
    assert check_weights(*paths) is False and check_params(*paths) is False


def test_parts_and_moving(array: np.ndarray, tmp_path: Path) -> None:
    layer, module = create_model(Layer(), "layer"), create_model(Module(), "module")
    assign_weight(layer, module)
    for proxy, given in ((layer, paddle.to_tensor(array)), (module, torch.as_tensor(array))):
        proxy.backward(proxy(given).sum())
        proxy.dump_report(), proxy.dump_weights(), proxy.dump_grads()
        proxy.clear_report()
    moved = tmp_path / "elsewhere"
    shutil.move(layer.dump_path, moved)
    for check in (check_report, check_weights, check_grads):
        assert check(str(moved), module.dump_path) is True
    tree = json.loads((moved / "rank_0" / "report.json").read_text())["tree"][0]
    assert tree["name"] == "Layer" and tree["route"] == "layer"
    assert [c["route"] for c in tree["children"]] == ["layer.linear1", "layer.act", "layer.linear2"]
    assert np.load(moved / "rank_0" / tree["fwd_outputs"][0]["path"]).shape == (16, 6)


def test_ranks_do_not_overwrite(array: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    module, other = create_model(Module(), "one"), create_model(Module(), "two")
    assign_weight(module, other)
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        for proxy in (module, other):
            proxy.step = 0
            run(proxy, torch.as_tensor(array) + (int(rank) if proxy is other else 0))
    paths = f"{module.dump_path}/step_0", f"{other.dump_path}/step_0"
    assert sorted(p.name for p in Path(paths[0]).iterdir()) == ["rank_0", "rank_1"]
    assert check_report(f"{paths[0]}/rank_0", f"{paths[1]}/rank_0") is True
    assert check_report(*paths) is False  # the second rank counts, too


def test_recomputation_and_half_precision(array: np.ndarray) -> None:
    layer, plain = create_model(Layer(), "again"), create_model(Layer(), "plain")
    assign_weight(layer, plain)
    for proxy, call in ((layer, recompute), (plain, lambda f, x: f(x))):
        given = paddle.to_tensor(array)
        given.stop_gradient = False
        proxy.backward(call(proxy, given).mean())
        proxy.try_dump()
    assert check_params(layer.dump_path, plain.dump_path) is True
    whole, half = create_model(Module(), "whole"), create_model(Module().bfloat16(), "half")
    assert assign_weight(whole, half) is True
    for proxy, given in ((whole, torch.as_tensor(array)), (half, torch.as_tensor(array).bfloat16())):
        run(proxy, given)
    assert check_report(whole.dump_path, half.dump_path) is True
    assert (
        check_report(whole.dump_path, half.dump_path, cfg={"atol": 1e-6, "compare_mode": "strict"}) is False
    )


def test_nothing_is_compared_with_itself(array: np.ndarray) -> None:
    layer = create_model(Layer())
    run(layer, paddle.to_tensor(array))
    with pytest.raises(ComparisonError, match="itself"):
        check_report(layer.dump_path, layer.dump_path)


def test_missing_and_broken_dumps(array: np.ndarray, tmp_path: Path) -> None:
    layer, other = create_model(Layer(), "one"), create_model(Layer(), "two")
    with pytest.raises(TraceError, match="does not exist"):
        check_report(layer.dump_path, other.dump_path)
    for proxy in (layer, other):
        run(proxy, paddle.to_tensor(array))
    file = Path(other.dump_path, "step_0", "rank_0", "report.json")
    file.write_text(file.read_text()[:200])
    assert check_report(layer.dump_path, other.dump_path) is False


def test_loaders(array: np.ndarray) -> None:
    rows = [array + i for i in range(4)]
    assert check_dataloader((paddle.to_tensor(a) for a in rows), (torch.as_tensor(a) for a in rows)) is True
    changed = [a + (i == 2) for i, a in enumerate(rows)]
    assert (
        check_dataloader((paddle.to_tensor(a) for a in rows), (torch.as_tensor(a) for a in changed)) is False
    )
    assert check_dataloader(rows, rows[:3]) is False
    pairs = [{"x": a, "y": [a.sum(0)]} for a in rows]
    assert check_dataloader(
        pairs, [{"x": torch.as_tensor(p["x"]), "y": torch.as_tensor(p["y"][0])} for p in pairs]
    )


def test_checks_need_no_framework(array: np.ndarray) -> None:
    layer, module = create_model(Layer(), "layer"), create_model(Module(), "module")
    assign_weight(layer, module)
    run(layer, paddle.to_tensor(array))
    run(module, torch.as_tensor(array))
    program = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['paddle'] = None\n"
        "from optrace.padiff import *\n"
        f"paths = {layer.dump_path!r}, {module.dump_path!r}\n"
        "print(check_report(*paths) and check_params(*paths))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split()[-1:] == ["True"], done.stderr
