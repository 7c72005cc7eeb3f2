"""The op-equivalence table: which calls do the same job, how their arguments translate, where they differ."""

from __future__ import annotations

from optrace.ops.binding import arrange, bind, defaults
from optrace.ops.compare import ArgumentDifference, compare_arguments, translate
from optrace.ops.expansions import expansion
from optrace.ops.lookup import equivalents, lookup, random_ops, same_job
from optrace.ops.schema import Row
from optrace.ops.stats import Stats, statistics
from optrace.ops.table import load

__all__ = [
    "ArgumentDifference",
    "Row",
    "Stats",
    "arrange",
    "bind",
    "compare_arguments",
    "defaults",
    "equivalents",
    "expansion",
    "load",
    "lookup",
    "random_ops",
    "same_job",
    "statistics",
    "translate",
]
