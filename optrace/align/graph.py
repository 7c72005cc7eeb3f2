"""A trace as a data-flow graph in single-assignment form.

*Nodes* are the calls at the level a person wrote them (the outermost recorded ones, with containers
such as multi-head attention opened). *Values* are tensors at one version, keyed ``(uid, version)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from optrace.trace.model import Trace
from optrace.trace.records import Call, TensorRef, tensors_in

Key = tuple[int, int]

# Ids from here on belong to calls that a comparison added to a graph (see ``Graph.extra``).
FIRST_EXTRA = 1 << 40

# Python-level functions of the frameworks that are whole layers: their inner calls are the ones to compare.
CONTAINERS = frozenset(
    {
        "torch.nn.functional.multi_head_attention_forward",
        "torch.nn.functional._scaled_dot_product_attention",
        "paddle.nn.functional.sparse_attention",
        # Functions with a backward of their own.
        "torch.autograd.Function.apply",
        "paddle.autograd.PyLayer.apply",
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One call with the values it reads and makes. ``index`` is its place in the graph."""

    index: int
    call: Call
    inputs: tuple[Key, ...]
    outputs: tuple[Key, ...]


class Graph:
    """Nodes in execution order with producer and consumer links."""

    def __init__(self, trace: Trace, phases: Iterable[str] = ("forward", "loss")) -> None:
        self.trace = trace
        self.nodes: list[Node] = []
        self.refs: dict[Key, TensorRef] = {}
        self.producer: dict[Key, int] = {}
        self.consumers: dict[Key, list[int]] = {}
        # Every call that made a value, innermost level included: where a value can be named.
        self.makers: dict[Key, list[Call]] = {}
        # Calls that stand for parts of a fused one; they are in no trace.
        self.extra: list[Call] = []
        # The API that each of them is a step of.
        self.inside: dict[int, str] = {}
        self._phases = frozenset(phases)
        self._build()

    def _build(self) -> None:
        opened = {c.id for c in self.trace.calls if c.api in CONTAINERS}
        mutated_storage: dict[int, int] = {}
        refs, makers = self.refs, self.makers
        for call in self.trace.calls:
            inputs = tensors_in(call.positional)
            if call.keyword:
                inputs += tensors_in(call.keyword)
            outputs = made_by(call)
            read, made = [r.key for r in inputs], [r.key for r in outputs]
            for key, ref in zip((*read, *made), (*inputs, *outputs)):
                refs.setdefault(key, ref)
            if call.error is not None or call.phase not in self._phases:
                continue
            for key in made:
                makers.setdefault(key, []).append(call)
            if (call.parent != -1 and call.parent not in opened) or call.id in opened:
                continue
            index = len(self.nodes)
            node = Node(index, call, unique(read), unique(k for k in made if k not in read))
            self.nodes.append(node)
            for ref in inputs if mutated_storage else ():
                # A view whose storage an earlier in-place call has written to is that call's doing.
                if ref.key not in self.producer and ref.version and ref.storage in mutated_storage:
                    self.producer[ref.key] = mutated_storage[ref.storage]
            for key in node.inputs:
                self.consumers.setdefault(key, []).append(index)
            for key in node.outputs:
                self.producer.setdefault(key, index)
            for ref in call.mutated:
                mutated_storage[ref.storage] = index

    @property
    def calls(self) -> list[Call]:
        """The trace's calls, all levels, and the added ones."""
        return self.trace.calls + self.extra

    @staticmethod
    def place(call: Call) -> int:
        """Where in the trace a call stands; an added one where the call stands that it is a part of."""
        return call.parent if call.id >= FIRST_EXTRA else call.id

    @property
    def leaves(self) -> list[TensorRef]:
        """Values that no recorded call made: parameters, buffers, the run's inputs."""
        read = {k for n in self.nodes for k in n.inputs}
        return [self.refs[k] for k in sorted(read) if k not in self.producer]

    def sinks(self) -> list[Key]:
        """Values nobody reads, of calls that read something and none of whose results is read.

        What a script creates or draws and never passes on is no result of it.
        """
        found: list[Key] = []
        for node in self.nodes:
            if node.inputs and not any(self.consumers.get(k) for k in node.outputs):
                found.extend(node.outputs)
        return found

    def descendants(self, index: int) -> list[int]:
        """Indices of the nodes that depend on node ``index``, in order."""
        reached = set(self.nodes[index].outputs)
        found = []
        for node in self.nodes[index + 1 :]:
            if not reached.isdisjoint(node.inputs):
                found.append(node.index)
                reached.update(node.outputs)
        return found


# Calls whose result is whatever the memory held: often a value that somebody else has let go.
_UNINITIALISED = ("empty", "empty_like", "new_empty", "empty_strided", "empty_permuted", "new_empty_strided")


def uninitialised(call: Call) -> bool:
    """Whether the numbers in what a call returns mean nothing."""
    return call.api.rpartition(".")[2] in _UNINITIALISED


def made_by(call: Call) -> list[TensorRef]:
    """The tensors a call returned, then those it changed in place."""
    return tensors_in(call.outputs) + list(call.mutated)


def unique(keys: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(keys))
