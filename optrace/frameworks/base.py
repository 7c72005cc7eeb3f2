"""The interface behind which torch and paddle stand. Nothing else in optrace knows either."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, TypeGuard, TypeVar

import numpy as np

_T = TypeVar("_T")


def is_a(obj: object, kind: type[_T]) -> TypeGuard[_T]:
    """``isinstance`` by what ``obj`` is, not by what it says: a mock of a tensor must not be read as one."""
    return type.__subclasscheck__(kind, type(obj))


class TensorInfo(NamedTuple):
    """What a tensor is, without its values. ``strides`` and ``offset`` count elements."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    strides: tuple[int, ...] | None
    offset: int
    storage: int
    requires_grad: bool


class Target(NamedTuple):
    """One patchable callable: ``getattr(owner, attribute)`` known to users as ``api``.

    ``held``: a builtin that no net sees, so names and containers that hold it are patched too.
    """

    owner: Any
    attribute: str
    api: str
    held: bool = False


class Region(NamedTuple):
    """A Python function of a framework inside which recording changes.

    ``kind``: ``"opaque"`` (it inspects the frameworks' functions or runs without them: patches are lifted
    until it returns), ``"lifted"`` (the same, but it computes nothing worth naming), ``"quiet"`` (what runs inside is no part of the program: printing), ``"data"`` (what
    runs inside loads data), ``"mode"`` (afterwards calls may build a graph instead of computing, or compute
    again), ``"thread"`` (it is the start of a thread's work). ``frames`` names a parameter that counts stack frames up to the caller; ``describe`` tells from
    the arguments which function or file the region is.
    """

    function: Any
    kind: str
    name: str
    frames: str | None = None
    describe: Callable[[tuple[Any, ...], dict[str, Any]], str] | None = None


class Net(ABC):
    """A second way to see calls, below the patches, on the thread that enters it."""

    def apply(self) -> None:  # noqa: B027 - most nets need none
        """Make ready, with the patches."""

    def undo(self) -> None:  # noqa: B027
        """Take back what ``apply`` did."""

    @abstractmethod
    def __enter__(self) -> Any: ...

    @abstractmethod
    def __exit__(self, *exc: object) -> Any: ...


class Framework(ABC):
    """One tensor framework. Instances exist only for frameworks that are already imported."""

    name: str
    version: str

    # Makes a context for looks of our own at tensors, which are no business of subclasses and modes.
    aside: Callable[[], AbstractContextManager[Any]] = nullcontext

    # -- tensors ---------------------------------------------------------------------------------
    @abstractmethod
    def is_tensor(self, obj: object) -> bool:
        """Whether ``obj`` is one of this framework's tensors (eager, with readable metadata)."""

    def unreadable(self, obj: object) -> str | None:
        """What is known of a tensor that ``is_tensor`` refuses: inside a transform, or a fake one."""
        return None

    @abstractmethod
    def info(self, tensor: Any) -> TensorInfo: ...

    @abstractmethod
    def inplace_version(self, tensor: Any) -> int:
        """Counts in-place changes; shared by views of one storage in torch."""

    @abstractmethod
    def to_numpy(self, tensor: Any) -> np.ndarray:
        """A copy of the values. bf16 and fp8 come as ``ml_dtypes`` arrays, sparse as dense.

        Raises ``TypeError`` when the tensor has no readable values (meta, fake, batched).
        """

    @abstractmethod
    def from_numpy(self, array: np.ndarray, requires_grad: bool = False) -> Any:
        """A fresh tensor with a copy of ``array`` (``ml_dtypes`` arrays included)."""

    @abstractmethod
    def snapshot(self, tensor: Any) -> Any:
        """A detached copy that later in-place changes do not touch."""

    # -- dtypes ----------------------------------------------------------------------------------
    @abstractmethod
    def dtype_name(self, obj: object) -> str | None:
        """``"float32"`` for this framework's float32 dtype object, ``None`` for anything else."""

    @abstractmethod
    def dtype(self, name: str) -> Any:
        """The framework's dtype object of that name."""

    # -- modules ---------------------------------------------------------------------------------
    @abstractmethod
    def is_module(self, obj: object) -> bool: ...

    @abstractmethod
    def named_modules(self, module: Any) -> Iterator[tuple[str, Any]]:
        """The module tree, root first with the name ``""``, shared modules once."""

    @abstractmethod
    def named_parameters(self, module: Any) -> Iterator[tuple[str, Any]]:
        """Trainable and frozen parameters, every shared one once, without buffers."""

    @abstractmethod
    def named_buffers(self, module: Any) -> Iterator[tuple[str, Any]]:
        """Buffers, running statistics included (paddle lists those among its parameters)."""

    @abstractmethod
    def assign(self, tensor: Any, array: np.ndarray) -> None:
        """Overwrite a parameter's or buffer's values in place, keeping its dtype."""

    # -- state -----------------------------------------------------------------------------------
    @abstractmethod
    def rng_state(self) -> Any:
        """The CPU (and current device) generator state, comparable with ``==``."""

    @abstractmethod
    def set_rng_state(self, state: Any) -> None: ...

    @abstractmethod
    def seed(self, value: int) -> None: ...

    @abstractmethod
    def no_grad(self) -> AbstractContextManager[Any]: ...

    @abstractmethod
    def unfused(self) -> AbstractContextManager[Any]:
        """Within it, layers take their op-by-op path instead of one fused call."""

    # -- calls -----------------------------------------------------------------------------------
    @abstractmethod
    def resolve(self, api: str) -> Callable[..., Any]:
        """The callable that ``api`` names. Raises ``AttributeError`` when there is none."""

    @abstractmethod
    def targets(self) -> Iterator[Target]:
        """Everything worth recording, in the order in which it should be patched."""

    @abstractmethod
    def module_call(self) -> tuple[type, str]:
        """The class and attribute through which every module is called."""

    @abstractmethod
    def net(self, observer: Any, originals: dict[int, Callable[..., Any]]) -> Net:
        """What sees calls that no patch can: entered with the trace, left with it."""

    @abstractmethod
    def regions(self) -> Iterator[Region]:
        """The functions, among all that are imported by now, inside which recording changes."""

    @abstractmethod
    def late_modules(self) -> tuple[str, ...]:
        """Modules whose import, while a trace runs, brings new regions."""

    @abstractmethod
    def compiled(self, result: Any) -> Region | None:
        """The region that an opaque one has returned (a function compiled just now)."""

    @abstractmethod
    def hidden(self, module: Any) -> str | None:
        """Why the calls inside ``module`` can't be seen; ``None`` when they can."""

    @abstractmethod
    def is_static(self) -> bool:
        """Whether calls build a graph now instead of computing."""

    @abstractmethod
    def recomputing(self) -> bool:
        """Whether this thread is in a backward pass with gradients on; asked only in first-order ones,

        where nothing but forward code that is run again (checkpointing) has them on."""

    @abstractmethod
    def optimizer_hooks(
        self, before: Callable[[Any], None], after: Callable[[Any], None]
    ) -> Callable[[], None]:
        """Call ``before(optimizer)`` and ``after(optimizer)`` around every step; returns the undo."""
