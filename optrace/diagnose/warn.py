"""Differences in the code of calls that agreed: they did not change this run's numbers, but may change another's."""

from __future__ import annotations

from optrace import ops
from optrace.align.correspondence import Correspondence
from optrace.diagnose.arguments import argument_differences, signature
from optrace.diagnose.findings import Warn
from optrace.trace.records import Call, tensors_in


def code_differences(forced: Correspondence) -> list[Warn]:
    """Arguments and result dtypes that differ although the values agree."""
    found: list[Warn] = []
    seen: set[tuple[object, ...]] = set()
    compared: set[tuple[object, ...]] = set()  # loops and layers make the same pair of calls many times
    for node in forced.raw.nodes:
        raw = node.call
        mine_said = (raw.site, *(forced.raw.refs[k].dtype for k in node.outputs), *signature(raw))
        for key in node.outputs:
            if key in forced.repairs:
                continue
            makers = (
                c for b in forced.base_keys(key) for c in forced.base.makers.get(b, ()) if c.parent == -1
            )
            for base in makers:
                pair = (*mine_said, *signature(base))
                if pair in compared or (
                    ops.same_job(base.api, raw.api) and _reads_the_same(forced, base, raw)
                ):
                    break
            else:
                continue
            if pair in compared:
                continue
            compared.add(pair)
            for d in argument_differences(base, raw):
                mark = (raw.api, raw.site, d.name)
                if mark not in seen:
                    seen.add(mark)
                    text = f"{raw.api}: {d.name} is {d.raw_value!r}, base has {d.base_value!r}; this run's numbers agree"
                    found.append(Warn(text, base, raw, d.name))
            mine, theirs = (
                forced.raw.refs[key].dtype,
                [forced.base.refs[b].dtype for b in forced.base_keys(key)],
            )
            if theirs and mine not in theirs and (raw.api, raw.site, "dtype") not in seen:
                seen.add((raw.api, raw.site, "dtype"))
                found.append(
                    Warn(
                        f"{raw.api} gives {mine}, base gives {theirs[0]}; the values agree",
                        base,
                        raw,
                        "dtype",
                    )
                )
    return found


def _reads_the_same(forced: Correspondence, base: Call, raw: Call) -> bool:
    """Whether the two calls' tensor arguments correspond one by one and have the same shapes."""
    mine = tensors_in(raw.positional) + tensors_in(raw.keyword)
    theirs = tensors_in(base.positional) + tensors_in(base.keyword)
    return len(mine) == len(theirs) and all(
        a.shape == b.shape and b.key in forced.base_keys(a.key) for a, b in zip(mine, theirs)
    )
