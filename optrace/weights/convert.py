"""``convert_checkpoint``: a checkpoint of one framework as a checkpoint of the other, by rules."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from optrace.errors import ConversionError
from optrace.weights import rules as rules_
from optrace.weights.checkpoint import files
from optrace.weights.checkpoint.entry import Contents, Entry
from optrace.weights.inventory import Inventory
from optrace.weights.rules import Rule
from optrace.weights.rules_from_models import rules_from_models

# What wrappers for parallel training and compilation put before every name.
_WRAPPERS = ("module.", "_orig_mod.", "_layers.", "model.")
_log = logging.getLogger(__name__)
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Step:
    """One use of a rule: sources in, targets out, with the targets' shapes and dtype."""

    rule: Rule
    sources: tuple[Entry, ...]
    targets: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str


@dataclass
class ConversionReport:
    """What became what. True when a file was written or, in a dry run, could be. ``str`` gives a table.

    ``dropped`` are left out by a rule; ``ignored`` were no tensors; ``unused_rules`` matched nothing.
    ``prefix`` stood before every name of the source and was left out.
    """

    path: Path
    steps: list[Step] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    unused_rules: list[Rule] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    dry_run: bool = False
    prefix: str = ""

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def mapping(self) -> dict[str, tuple[str, ...]]:
        """Source names by target name."""
        return {t: tuple(s.name for s in step.sources) for step in self.steps for t in step.targets}

    def __str__(self) -> str:
        verb = "would become" if self.dry_run else "became"
        lines = [
            f"{sum(len(s.sources) for s in self.steps)} tensors {verb} {len(self.mapping)} in {self.path}"
        ]
        table = [("from", "to", "how")]
        for step in self.steps:
            sources = ", ".join(f"{s.name} {list(s.shape)}" for s in step.sources)
            targets = ", ".join(f"{t} {list(shape)}" for t, shape in zip(step.targets, step.shapes))
            table.append((sources, targets, _how(step.rule, step.sources)))
        widths = [max(len(row[i]) for row in table) for i in range(2)]
        lines += [
            "  " + "  ".join((row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2])) for row in table
        ]
        if self.prefix:
            lines.append(f"before every name stood {self.prefix}, which a wrapper put there; it was left out")
        for title, names in (
            ("dropped by a rule", self.dropped),
            ("not tensors, left out", self.ignored),
            ("rules that matched nothing", [str(r) for r in self.unused_rules]),
        ):
            if names:
                lines.append(f"{title}: {', '.join(names)}")
        return "\n".join(lines)


def convert_checkpoint(
    src: str | Path,
    dst: str | Path,
    *,
    rules: Any = None,
    to: str | None = None,
    model: Any = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ConversionReport:
    """Convert a checkpoint (``.bin .pt .pth .safetensors .pdparams``, an index of shards, a folder).

    ``rules``: a file (``.toml`` or ``.json``), a list of rules, see ``optrace.weights.rules``; used the
    other way round where that is what fits. ``to``: the format where ``dst``'s name does not tell it.
    ``model``: a pair of models (source, target), or (source, target, inputs), whose rules are found as
    ``assign_weight`` finds weights; or the target model alone, to check the result's names and shapes.
    ``dry_run`` reports and writes nothing; ``progress(done, total, name)`` is called after every tensor.

    One tensor at a time is in memory (all of them where ``src`` is ``.pdparams``). Raises
    ``ConversionError``, and writes nothing, when a tensor has no rule, two become one, or the target
    model wants others.
    """
    path = files.target(Path(dst), to)
    contents = files.read(Path(src))
    found, wanted = _rules(rules, model)
    contents, prefix = _bare(contents, found)
    report = _planned(path, contents, found)
    report.prefix = prefix
    _log.info("%d tensors of %s, %d rules", len(contents.entries), src, len(found))
    for step in report.steps:
        _log.debug("%s -> %s", ", ".join(s.name for s in step.sources), ", ".join(step.targets))
    if wanted is not None:
        _check(report, wanted)
    report.dry_run = dry_run
    if not dry_run:
        total = len(report.mapping)
        entries = list(_entries(report.steps))
        files.write(path, entries, _counting(progress, total) if progress is not None else None)
    return report


def _bare(contents: Contents, rules: list[Rule]) -> tuple[Contents, str]:
    """The contents without the prefix that a wrapper put before every name, where the rules know none."""
    prefix = ""
    both = [*rules, *(r for rule in rules for r in rule.inverted())]
    while contents.entries:
        found = next((p for p in _WRAPPERS if all(e.name.startswith(p) for e in contents.entries)), None)
        if found is None:
            break
        entries = tuple(replace(e, name=e.name.removeprefix(found)) for e in contents.entries)
        shorter = replace(contents, entries=entries)
        if _count(shorter, both) < _count(contents, both) or _count(contents, both) == len(entries):
            break
        prefix += found
        contents = shorter
    return contents, prefix


def _counting(progress: Progress, total: int) -> Callable[[Entry], None]:
    count = itertools.count(1)

    def written(entry: Entry) -> None:
        progress(next(count), total, entry.name)

    return written


def _rules(rules: Any, model: Any) -> tuple[list[Rule], Inventory | None]:
    wanted = None
    derived: list[Rule] = []
    if isinstance(model, (tuple, list)):
        source, target, *inputs = model
        wanted = Inventory(target)
        if rules is None:
            derived = rules_from_models(source, target, inputs[0] if inputs else None)
    elif model is not None:
        wanted = Inventory(model)
    found = rules_.parse(rules) or derived
    if not found:
        raise ConversionError(
            "converting needs rules: a file, a list, or model=(source, target, inputs) to have them found"
        )
    return found, wanted


# -- planning -----------------------------------------------------------------------------------------


def _planned(path: Path, contents: Contents, rules: list[Rule]) -> ConversionReport:
    forward = _count(contents, rules)
    if forward < len(contents.entries):
        turned = [r for rule in rules for r in rule.inverted()]
        if _count(contents, turned) > forward:
            rules = turned
    report = ConversionReport(path, ignored=list(contents.others), rules=rules)
    by_name = {e.name: e for e in contents.entries}
    used: set[int] = set()
    unmatched: list[str] = []
    for entry in contents.entries:
        found = next(((i, m) for i, r in enumerate(rules) if (m := r.slots(entry.name)) is not None), None)
        if found is None:
            unmatched.append(f"{entry.name} {list(entry.shape)}")
            continue
        number, (position, slots) = found
        used.add(number)
        if rules[number].drops:
            report.dropped.append(entry.name)
        elif position == 0:
            report.steps.append(_step(rules[number], rules[number].source_names(slots), slots, by_name))
    if unmatched:
        raise ConversionError(
            f"no rule says what becomes of {len(unmatched)} of {len(contents.entries)} tensors: "
            f"{', '.join(unmatched)}. Add a rule for each, or one with 'drop'. Nothing was written"
        )
    targets = [t for step in report.steps for t in step.targets]
    twice = sorted({t for t in targets if targets.count(t) > 1}) if len(set(targets)) < len(targets) else []
    if twice:
        raise ConversionError(f"more than one tensor would become {', '.join(twice)}. Nothing was written")
    taken = {s.name for step in report.steps for s in step.sources} | set(report.dropped)
    halves = [e.name for e in contents.entries if e.name not in taken]
    if halves:
        raise ConversionError(
            f"rules join {', '.join(halves)} with tensors that are not there. Nothing was written"
        )
    report.unused_rules = [r for i, r in enumerate(rules) if i not in used]
    return report


def _count(contents: Contents, rules: list[Rule]) -> int:
    return sum(any(r.slots(e.name) is not None for r in rules) for e in contents.entries)


def _step(rule: Rule, names: list[str], slots: dict[str, str], by_name: dict[str, Entry]) -> Step:
    missing = [n for n in names if n not in by_name]
    if missing:
        raise ConversionError(
            f"rule {rule} needs {', '.join(missing)}, which the checkpoint does not have. Nothing was written"
        )
    sources = tuple(by_name[n] for n in names)
    shapes = tuple(rule.target_shapes([s.shape for s in sources]))
    return Step(rule, sources, tuple(rule.target_names(slots)), shapes, rule.cast or sources[0].dtype)


def _check(report: ConversionReport, wanted: Inventory) -> None:
    """Raises ``ConversionError`` unless the targets are what the model's state dict takes."""
    made = {t: shape for step in report.steps for t, shape in zip(step.targets, step.shapes)}
    faults = []
    for owned in wanted:
        names = [n for n in (owned.name, *owned.others) if n in made]
        if (
            not names
            and (not owned.buffer or owned.name in wanted.persistent)
            and not owned.name.endswith("num_batches_tracked")
        ):
            faults.append(f"nothing becomes {owned}")
        faults += [
            f"{n} becomes {list(made[n])}, but the model has {owned}" for n in names if made[n] != owned.shape
        ]
    known = {n for owned in wanted for n in (owned.name, *owned.others)} | wanted.persistent
    faults += [f"the model has no {name}" for name in made if name not in known]
    if faults:
        raise ConversionError(f"the result would not fit the model: {'; '.join(faults)}. Nothing was written")


# -- values -------------------------------------------------------------------------------------------


def _entries(steps: list[Step]) -> Iterator[Entry]:
    for step in steps:
        held = _Held(step)
        for position, (name, shape) in enumerate(zip(step.targets, step.shapes)):
            yield Entry(name, shape, step.dtype, partial(held.take, position))


class _Held:
    """The results of one step, computed when the first is asked for, let go with the last."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._results: list[np.ndarray | None] = []

    def take(self, position: int) -> np.ndarray:
        if not self._results:
            self._results = list(self._step.rule.apply([s.load() for s in self._step.sources]))
        result = self._results[position]
        assert result is not None
        self._results[position] = None
        if all(r is None for r in self._results):
            self._results = []
        return result


def _how(rule: Rule, sources: tuple[Entry, ...]) -> str:
    words = []
    if len(rule.sources) > 1:
        words.append(f"joined along {rule.axis}")
    if len(rule.targets) > 1:
        words.append(f"cut along {rule.axis}")
    if rule.transpose and len(sources[0].shape) > 1:
        words.append("transposed")
    if rule.shape is not None:
        words.append("reshaped")
    if rule.cast is not None:
        words.append(f"cast to {rule.cast}")
    return ", ".join(words) or "copied"
