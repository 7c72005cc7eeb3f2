"""The ops inside a layer that differs, compared on base's inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from optrace.diagnose.compare import Comparison
from optrace.diagnose.findings import Finding
from optrace.diagnose.run import Arguments, run_model
from optrace.errors import ComparisonError
from optrace.layers.records import LayerCall, Slot
from optrace.layers.report import LayerFinding
from optrace.layers.selection import Selection
from optrace.randomness import replay_random
from optrace.randomness.again import install
from optrace.randomness.pairing import pair


def opener(
    finding: LayerFinding, selections: tuple[Selection, Selection], train: bool | None
) -> Callable[[], list[Finding]]:
    """What ``finding.open`` runs."""

    def run() -> list[Finding]:
        layers = [s.modules[c.name] for s, c in zip(selections, (finding.base, finding.raw))]
        arrays = finding.base.inputs
        if len(arrays) != len(finding.raw.inputs):
            raise ComparisonError(
                f"{finding.base.name or 'the model'} of base takes {len(arrays)} tensors, "
                f"{finding.raw.name or 'the model'} of raw {len(finding.raw.inputs)}: base's can't be given to raw"
            )
        calls = (finding.base, finding.raw)
        base = run_model(layers[0], _arguments(calls[0], arrays), train)
        with replay_random(base):
            raw = run_model(layers[1], _arguments(calls[1], arrays), train)
        install()
        pair(base, raw)
        return Comparison(base, raw).run()[0]

    return run


def _arguments(call: LayerCall, arrays: list[np.ndarray]) -> Arguments:
    """The arguments of a recorded call with other arrays in the places of its tensors."""
    args, kwargs = _filled(call.arguments, arrays)
    return Arguments(args, kwargs)


def _filled(tree: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(tree, Slot):
        return arrays[tree.place]
    if isinstance(tree, dict):
        return {k: _filled(v, arrays) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)) and not hasattr(tree, "_fields"):
        return type(tree)(_filled(item, arrays) for item in tree)
    return tree
