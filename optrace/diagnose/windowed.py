"""Two long runs compared piece by piece, in the memory that two pieces need.

A window of both runs is compared as ``recorded`` does; what lies before a cut in it is settled, the rest is
looked at again in the next window, with what it leads to. The cut is where both runs hold a value that no
other resembles. Base's window starts a little earlier than raw's, since independent branches may run in another order.
"""

from __future__ import annotations

from typing import NamedTuple

from optrace.align.graph import Key
from optrace.align.prints import Prints
from optrace.diagnose.evidence import check_comparable, gather
from optrace.diagnose.findings import Evidence, Finding, Spread, Warn
from optrace.diagnose.merge import merged
from optrace.diagnose.recorded import Drawn, RecordedComparison
from optrace.diagnose.results import differing_results, ended_early
from optrace.diagnose.warn import code_differences
from optrace.progress import tell
from optrace.trace.stream import Stream

WINDOW = 16_000
# So many calls behind a cut are looked at with what is before it, and of base before it with what is behind it.
MARGIN = 1000


class Cut(NamedTuple):
    """Ids of the first calls, base's and raw's, that are left to the next window."""

    base: int
    raw: int


class WindowedComparison:
    """One comparison of two streams. ``prints`` is the window with the first finding, or the last one."""

    def __init__(
        self, base: Stream, raw: Stream, rtol: float | None = None, atol: float | None = None
    ) -> None:
        self._tolerances = rtol, atol
        self._base, self._raw = base, raw
        self._done = Cut(0, 0)
        self._wrong: set[Key] = set()
        self._drawn = Drawn({}, {})
        self._travelling: list[Finding] = []
        self.prints: Prints | None = None
        self.findings: list[Finding] = []
        self.warnings: list[Warn] = []
        self.evidence = Evidence()

    def run(self) -> tuple[list[Finding], list[Warn], Evidence]:
        last = False
        while not last:
            base, raw = self._base.waiting(WINDOW + MARGIN), self._raw.waiting(WINDOW)
            last = self._raw.ends_within(WINDOW)
            part = RecordedComparison(base, raw, *self._tolerances, self._wrong, self._drawn)
            if self.prints is None:
                check_comparable(part.prints)
            cut = Cut(1 << 62, 1 << 62)
            if not last:
                cut = self._cut(part)
                part.prints.outputs = _unread(part.prints, cut)
            part.judge()
            self._settle(part, cut, last)
            self._drawn = Drawn(part.base_drawn, part.prints.drawn)
            self._drop(part, cut)
            tell(self.evidence.raw_calls, 0, "comparing calls")
        return merged(self.findings), self.warnings, self.evidence

    def _cut(self, part: RecordedComparison) -> Cut:
        """After the last pair, in the second half of raw's window, that nothing else can be mistaken for."""
        base, raw = part.prints.base.nodes, part.prints.raw.nodes
        half, late = len(raw) // 2, max(len(raw) // 2 + 1, len(raw) - MARGIN)
        if late >= len(raw):  # hardly a call that counts
            return Cut(part.base.trace.calls[-1].id + 1, part.raw.trace.calls[-1].id + 1)
        candidates = raw[half:late][::-1]
        for node in candidates:
            for key in node.outputs:
                matches = part.prints.matches.get(key, ())
                maker = part.prints.base.producer.get(matches[0].key) if len(matches) == 1 else None
                if maker is not None and key not in part.prints.weak and maker + 1 < len(base):
                    return Cut(base[maker + 1].call.id, raw[node.index + 1].call.id)
        for node in candidates:
            pair = part.counterparts.get(node.index)
            if pair is not None and pair.index + 1 < len(base):
                return Cut(base[pair.index + 1].call.id, raw[node.index + 1].call.id)
        return Cut(base[max(len(base) // 2, len(base) - MARGIN)].call.id, raw[late].call.id)

    def _settle(self, part: RecordedComparison, cut: Cut, last: bool) -> None:
        prints = part.prints
        found = [f for f in part.findings if f.raw is not None and f.raw.id < cut.raw]
        if self.prints is None or not self.findings:
            self.prints = prints
        self.findings += found
        if last:
            if not self.findings:
                self.findings = differing_results(prints)
            self.findings += ended_early(prints)
        known = {(w.raw and (w.raw.api, w.raw.site), w.argument) for w in self.warnings}
        self.warnings += [
            w
            for w in code_differences(prints)
            if (w.raw and (w.raw.api, w.raw.site), w.argument) not in known
        ]
        self.evidence.add(gather(prints, range(self._done.base, cut.base), range(self._done.raw, cut.raw)))
        self._follow(prints, found, cut, last)
        self._done = cut

    def _follow(self, prints: Prints, found: list[Finding], cut: Cut, last: bool) -> None:
        """Which values go on being wrong, and how far the findings of earlier windows reach."""
        fine = prints.accounted()
        before, behind = self._wrong, 0
        self._wrong = set(before)
        for node in prints.raw.nodes:
            if node.call.id >= cut.raw:
                break
            wrong = [k for k in node.outputs if not fine[k]]
            self._wrong.update(wrong)
            behind += bool(wrong)
        ends = last and any(not fine.get(k, True) for k in prints.outputs)
        for f in self._travelling:
            f.spread = Spread(f.spread.calls + behind, f.spread.reaches_output or ends)
        self._travelling += [f for f in found if f.spread.calls]

    def _drop(self, part: RecordedComparison, cut: Cut) -> None:
        base, raw = self._base.trace.calls, self._raw.trace.calls
        keep_from = cut.base - MARGIN
        count = next((i for i, c in enumerate(base) if c.id >= keep_from and c.parent == -1), len(base))
        self._base.drop(count, part.prints.base.refs)
        count = next((i for i, c in enumerate(raw) if c.id >= cut.raw), len(raw))
        self._raw.drop(count, part.prints.raw.refs)


def _unread(prints: Prints, cut: Cut) -> frozenset[Key]:
    """Raw values from before the cut that nobody has read so far: results, in all likelihood."""
    raw = prints.raw
    return frozenset(k for k in raw.sinks() if raw.nodes[raw.producer[k]].call.id < cut.raw)
