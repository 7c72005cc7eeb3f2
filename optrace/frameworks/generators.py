"""Whether a framework's default generator has been seeded."""

from __future__ import annotations

import sys

# An unseeded generator starts from a number of 49 or more random bits; nobody types one.
_TYPED = 1 << 32


def seeded(framework: str) -> bool:
    """Whether the default CPU generator stands on a seed of the program's choice."""
    module = sys.modules[framework]
    if framework == "torch":
        return 0 <= module.initial_seed() < _TYPED
    state = str(module.get_rng_state("cpu")[0]).split(maxsplit=2)
    return len(state) > 1 and 0 <= int(state[1]) < _TYPED
