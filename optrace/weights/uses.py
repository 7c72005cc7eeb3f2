"""One use of a parameter: what it does in which operation, independent of names and framework."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from optrace.weights.views import View


@dataclass
class Use:
    """Parameter ``name`` in ``role``.

    ``perm`` turns the view into its role's own order of axes (a ``matrix`` is [in, out]), ``shape``
    is the shape then. ``source`` and ``result`` name the data tensors that go in and come out;
    ``place`` is the position in the order of use. ``part`` numbers the parameters of a computed view,
    ``signature`` names the next computations that consume the result, ``widths`` are the numbers of
    columns that joined parts brought along.
    """

    name: str
    role: str
    view: View
    perm: tuple[int, ...]
    shape: tuple[int, ...]
    place: int = 0
    buffer: bool = False
    module: str = ""
    module_type: str = ""
    source: tuple[int, int] | None = None
    result: tuple[int, int] | None = None
    call: int = -1
    part: int = -1
    partners: tuple[str, ...] = field(default=())
    widths: tuple[int, ...] = field(default=())
    signature: tuple[str, ...] = field(default=())

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def plain(self) -> bool:
        """Whether the whole parameter is used as it is stored, but for the order of its axes."""
        return self.view.is_leaf

    @property
    def squeezed(self) -> tuple[int, ...]:
        """``shape`` without axes of length one."""
        return tuple(d for d in self.shape if d != 1)


def canonical(
    view: View, role: str, perm: tuple[int, ...] | None = None, shape: tuple[int, ...] | None = None
) -> Use:
    """A use of a view with one parameter; ``perm`` and ``shape`` default to the view's own."""
    perm = tuple(range(len(view.shape))) if perm is None else perm
    shape = tuple(view.shape[a] for a in perm) if shape is None else shape
    return Use(view.names[0], role, view, perm, shape)
