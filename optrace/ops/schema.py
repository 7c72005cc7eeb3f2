"""The form of an op-table file: what a row may say, and the errors when it says something else."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Kind = Literal["compute", "move", "create", "random", "composite"]

# What an example says about how it is compared: without gradients; as samples of a distribution.
SWITCHES = frozenset({"grad", "distribution"})


class PerSide(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One text for each framework."""

    torch: str = ""
    paddle: str = ""


class Assumes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Values that parameters of one side must have for the row to hold."""

    torch: dict[str, Any] = {}
    paddle: dict[str, Any] = {}


class Results(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which of several results correspond, by position; all of them when left out."""

    torch: tuple[int, ...] = ()
    paddle: tuple[int, ...] = ()


class Row(msgspec.Struct, eq=False, forbid_unknown_fields=True, omit_defaults=True):
    """One equivalence. ``op_mappings/README.md`` explains every field.

    ``torch`` and ``paddle`` list names with signatures; a name without one has the signature of the
    first name of its side. ``args`` maps torch parameters to paddle's, same names map by themselves.
    ``values`` lists pairs (torch value, paddle value); ``convert`` names a function from
    ``conversions.py`` for one parameter; ``meaning`` names a joint reading from ``meanings/`` for
    calls whose arguments can't be translated one by one. Rows with the same ``job`` do the same.
    ``draws`` says that a call of another kind can draw random numbers, too (attention with dropout).
    ``layout`` gives the axis order that turns a torch tensor into paddle's. ``reason`` says why a row is
    not executed, ``unexecuted`` why single names of it are not.
    """

    name: str
    kind: Kind = "compute"
    torch: list[str] = []
    paddle: list[str] = []
    args: dict[str, str] = {}
    forms: dict[str, str] = {}
    values: dict[str, list[tuple[Any, Any]]] = {}
    convert: dict[str, str] = {}
    assumes: Assumes = Assumes()
    meaning: str = ""
    job: str = ""
    layout: dict[str, list[int]] = {}
    results: Results = Results()
    differences: list[str] = []
    examples: list[dict[str, Any]] = []
    draws: bool = False
    grad: bool = False
    inplace: bool = False
    tolerance: float = 0.0
    expansion: PerSide = PerSide()
    unexecuted: dict[str, str] = {}
    closest: str = ""
    reason: str = ""
    versions: PerSide = PerSide()
    file: str = ""

    def listed(self, framework: str) -> list[str]:
        """One side's names as written, signatures included."""
        return self.torch if framework == "torch" else self.paddle

    def names(self, framework: str) -> tuple[str, ...]:
        """One side's names, the canonical one first."""
        return tuple(dict.fromkeys(entry.partition("(")[0].strip() for entry in self.listed(framework)))


class TableFile(msgspec.Struct, forbid_unknown_fields=True):
    """One file: rows under ``[[op]]``."""

    op: list[Row] = []
