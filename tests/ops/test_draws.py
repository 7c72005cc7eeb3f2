"""``random_ops`` names what moves a generator, and nothing that can't: every name is watched while it runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from drawing import PADDLE, TORCH, tensor
from execution import Run, carried, example, function

from optrace import frameworks, random_ops
from optrace.ops.schema import Row
from optrace.ops.table import table

pytest.importorskip("torch")
pytest.importorskip("paddle")

# Inner names of others in the list.
INNER = ("_C_ops.", "_VF.", "torch._")
# Not in paddle's CPU build, where they raise.
GPU = ("flash", "fused_dot", "fused_multi_", "fused_gate", "fused_bias_dropout", "fused_feedforward", "top_p")
# They sample from a generator of their own, which no state shows.
OWN = ("class_center_sample", "sample_neighbors")
# Takes sparse tensors; the dense one is shown.
SPARSE = ("sparse.pca_lowrank",)
ELSEWHERE = (*INNER, *GPU, *OWN, *SPARSE)
ROWS = [row for row in table().rows if row.examples]
CALLS = {"torch": TORCH, "paddle": PADDLE}


def moves(framework: str, run: Callable[[], Any]) -> bool:
    known = frameworks.get(framework)
    before = known.rng_state()
    try:
        run()
    finally:
        moved = bool(known.rng_state() != before)
    return moved


def run_row(row: Row, index: int, framework: str) -> None:
    args: Any = example(row, index)
    api = row.names(framework)[0]
    if framework == "paddle" and row.torch:
        args = carried(row, args, row.names("torch")[0], api)
    if args is not None:
        Run(row, api, args)


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_no_other_row_draws(framework: str) -> None:
    known = random_ops(framework)
    found, ran = set(), 0
    for row in ROWS:
        if not row.names(framework) or row.names(framework)[0] in known:
            continue
        for index in range(len(row.examples)):
            try:
                if moves(framework, partial(run_row, row, index, framework)):
                    found.add(row.names(framework)[0])
                ran += 1
            except Exception:
                continue  # whether it runs is another test's business
    assert not found
    assert ran > 400


@pytest.mark.parametrize("api", [*TORCH, *PADDLE])
def test_it_is_listed_and_draws(api: str) -> None:
    framework = api.partition(".")[0]
    assert api in random_ops(framework)
    assert moves(framework, lambda: CALLS[framework][api](function(api), tensor(framework)))


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_all_that_is_listed_is_shown_to_draw(framework: str) -> None:
    left = random_ops(framework) - set(CALLS[framework])
    jobs = table()
    unshown = []
    for api in left:
        aliases = {n for row in jobs.rows if api in row.names(framework) for n in row.names(framework)}
        if not aliases & set(CALLS[framework]) and not any(part in api for part in ELSEWHERE):
            unshown.append(api)
    assert not unshown


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_creation_in_place_and_layers_without_draws_are_not_listed(framework: str) -> None:
    names = random_ops(framework)
    for short in ("zeros", "ones", "full", "arange", "eye", "empty", "nn.Linear", "nn.ReLU", "nn.LayerNorm"):
        assert f"{framework}.{short}" not in names
    for short in ("zero_", "fill_", "add_", "clip_" if framework == "paddle" else "clamp_"):
        assert f"{framework}.Tensor.{short}" not in names
