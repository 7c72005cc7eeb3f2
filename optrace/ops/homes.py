"""The modules that define classes and functions, and the namespaces in which users find them.

``type(layer).__module__`` and tracebacks show the first, ``op_mappings/`` has the second:
``torch.nn.modules.linear.Linear`` is ``torch.nn.Linear``, ``paddle.tensor.math.add`` is ``paddle.add``.
"""

from __future__ import annotations

from collections.abc import Iterator

HOMES = {
    "torch.nn.modules": ("torch.nn",),
    "torch.nn.parallel": ("torch.nn", "torch.nn.parallel"),
    "torch.optim": ("torch.optim",),
    "torch.distributions": ("torch.distributions",),
    "torch.utils.data": ("torch.utils.data",),
    "torch.amp": ("torch.amp",),
    "torch.cuda.amp": ("torch.cuda.amp",),
    "torch._C.TensorBase": ("torch.Tensor",),
    "torch._tensor.Tensor": ("torch.Tensor",),
    "paddle.nn.layer": ("paddle.nn",),
    "paddle.nn.functional": ("paddle.nn.functional",),
    "paddle.nn.initializer": ("paddle.nn.initializer",),
    "paddle.nn.utils": ("paddle.nn.utils",),
    "paddle.tensor": ("paddle", "paddle.linalg", "paddle.Tensor"),
    "paddle.optimizer": ("paddle.optimizer",),
    "paddle.distribution": ("paddle.distribution",),
    "paddle.io.dataloader": ("paddle.io",),
    "paddle.autograd": ("paddle.autograd", "paddle"),
    "paddle.amp": ("paddle.amp",),
}


def public_names(api: str) -> Iterator[str]:
    """Names under which users may find what ``api`` defines; none when it is no place of definition."""
    home, _, last = api.rpartition(".")
    # the defining module, or one below the package it is told for
    for place in (home, home.rpartition(".")[0]):
        for namespace in HOMES.get(place, ()):
            if namespace != home:
                yield f"{namespace}.{last}"
