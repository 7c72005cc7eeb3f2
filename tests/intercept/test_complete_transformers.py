"""Other people's models: a ``TorchFunctionMode`` beside the trace sees no operation that the trace lacks."""

import numpy
import pytest

from optrace.trace.session import trace

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from architectures import FAST, MORE  # noqa: E402
from oracles import TorchOracle, lacking  # noqa: E402


def build(name):
    config, sizes, model, inputs = {**FAST, **MORE}[name]
    torch.manual_seed(0)
    built = getattr(transformers, model)(getattr(transformers, config)(**sizes))
    return built.eval(), inputs()


def flat(output):
    found, stack = [], [output]
    while stack:
        item = stack.pop()
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
    return found


def run(model, inputs):
    model.zero_grad()
    torch.manual_seed(1)
    numpy.random.seed(1)  # spectral augmentation draws from there
    out = flat(model(**inputs))
    sum(o.float().sum() for o in out if o.is_floating_point() and o.requires_grad).backward()
    return out, [p.grad for p in model.parameters()], torch.get_rng_state()


def same(a, b):
    return all(x is y or torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(n, marks=pytest.mark.slow) for n in MORE)])
def test_nothing_is_lacking_and_nothing_changes(name, record_property):
    model, inputs = build(name)
    for train in (False, True):
        model.train(train)
        out, grads, state = run(model, inputs)
        oracle = TorchOracle()
        with trace(level="meta") as t, oracle:
            traced, traced_grads, traced_state = run(model, inputs)
        assert not t.errors, t.errors
        assert not lacking(oracle, t), lacking(oracle, t)
        assert same(out, traced) and same(grads, traced_grads) and torch.equal(state, traced_state)
    record_property("calls", len(t.calls))
    print(f"{name}: {len(t.calls)} calls recorded, {sum(oracle.seen.values())} seen beside, 0 missed")
