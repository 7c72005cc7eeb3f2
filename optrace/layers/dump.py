"""Layer runs and parameters as folders of JSON and ``.npy`` files, to be compared elsewhere.

``report.json`` holds what the layers made, ``params.json`` (or ``weights.json``, ``grads.json``) the
parameters. Files are named relative to their folder, so folders can be moved. ``docs/padiff.md`` has the format.
"""

from __future__ import annotations

import hashlib
import json
import tokenize
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from optrace.errors import TraceError
from optrace.layers.recorder import parameter
from optrace.layers.records import LayerCall, LayerRun, Parameter
from optrace.layers.selection import Selection

Arrays = Mapping[str, np.ndarray | None]
_BITS = {"bfloat16", "float8_e4m3fn", "float8_e5m2"}  # numpy's files can't say these: written as float32

# What reading a file of another form runs into.
_MALFORMED = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)


class _Arrays:
    """Arrays of one folder; equal ones are written once."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._folder, self._kind = folder, kind
        self._written: dict[bytes, str] = {}

    def write(self, array: np.ndarray | None) -> dict[str, Any] | None:
        if array is None:
            return None
        shown = array.astype(np.float32) if str(array.dtype) in _BITS else np.ascontiguousarray(array)
        shown = shown.reshape(array.shape)
        key = hashlib.blake2b(shown.tobytes(), digest_size=16, person=str(shown.dtype).encode()[:16])
        key.update(str(shown.shape).encode())
        if (name := self._written.get(key.digest())) is None:
            name = f"{self._kind}/{self._kind}_{len(self._written)}.npy"
            (self._folder / self._kind).mkdir(parents=True, exist_ok=True)
            np.save(self._folder / name, shown)
            self._written[key.digest()] = name
        return {"path": name, "shape": list(array.shape), "dtype": str(array.dtype)}


def write_report(run: LayerRun, folder: Path, name: str) -> None:
    """Write ``report.json`` and its tensors; an earlier report in the folder is replaced."""
    _clear(folder, "report.json", "tensors")
    arrays = _Arrays(folder, "tensors")
    head = {"model_name": name, "class": run.model, "framework": run.framework, "layer_map": run.layer_map}
    _json(folder / "report.json", {**head, "tree": [_node(c, name, arrays) for c in run.roots]})


def _node(call: LayerCall, model: str, arrays: _Arrays) -> dict[str, Any]:
    return {
        "name": call.kind,
        "route": f"{model}.{call.name}" if call.name else model,
        "layer": call.name,
        "type": "net",
        "fwd_inputs": [arrays.write(a) for a in call.inputs],
        "fwd_outputs": [arrays.write(a) for a in call.outputs],
        "bwd_grads": [arrays.write(a) for a in call.input_grads],
        "out_grads": [arrays.write(a) for a in call.output_grads],
        "parameters": {n: {"shape": list(p.shape), "print": list(p.print)} for n, p in call.owned.items()},
        "children": [_node(c, model, arrays) for c in call.children],
    }


def read_report(folder: Path) -> LayerRun:
    """A run from its folder. Raises ``TraceError`` for a file that is missing or not of this form."""
    data = _load(folder / "report.json")
    try:
        roots = [_call(node, folder, data["model_name"]) for node in data["tree"]]
        layers = data.get("layer_map") or []
        layers = (
            layers if isinstance(layers, list) else [_layer(r, data["model_name"]) for r in layers["route"]]
        )
        return LayerRun(data.get("class", data["model_name"]), data["framework"], roots, layers)
    except _MALFORMED as error:
        raise _malformed(folder / "report.json", error) from error


def _call(node: dict[str, Any], folder: Path, model: str) -> LayerCall:
    def arrays(key: str) -> list[Any]:
        return [_array(item, folder) for item in node.get(key, [])]

    own = {n: Parameter(tuple(p["shape"]), tuple(p["print"])) for n, p in node.get("parameters", {}).items()}
    children = [_call(c, folder, model) for c in node["children"]]
    return LayerCall(
        node.get("layer", _layer(node["route"], model)), node["name"], own, arrays("fwd_inputs"),
        arrays("fwd_outputs"), arrays("bwd_grads"), arrays("out_grads"), children,
    )  # fmt: skip


def write_parameters(
    selection: Selection, folder: Path, name: str, weights: Arrays | None, grads: Arrays | None
) -> None:
    """Write ``params.json`` (or ``weights.json``, ``grads.json`` where only one is given) and the arrays."""
    file = "params.json" if weights is not None and grads is not None else "weights.json"
    file = "grads.json" if weights is None else file
    kinds = [k for k, given in (("weights", weights), ("grads", grads)) if given is not None]
    _clear(folder, file, *kinds)
    writers = {kind: _Arrays(folder, kind) for kind in kinds}
    given = {"weights": weights or {}, "grads": grads or {}}
    parameters = dict(selection.framework.named_parameters(selection.model))
    nodes: dict[str, dict[str, Any]] = {}
    for layer, module in selection.modules.items():
        start = f"{layer}." if layer else ""
        own = [n for n in parameters if n.startswith(start) and "." not in n[len(start) :]]
        taking_part = layer not in selection.unassigned
        node: dict[str, Any] = {
            "name": type(module).__name__, "route": f"{name}.{layer}" if layer else name, "layer": layer,
            "available": taking_part, "weights": {}, "grads": {}, "parameters": {}, "children": [],
        }  # fmt: skip
        for full in own if taking_part else []:
            values = parameter(selection.framework.to_numpy(parameters[full]))
            node["parameters"][full[len(start) :]] = {
                "shape": list(values.shape),
                "print": list(values.print),
            }
            for kind in kinds:
                node[kind][full[len(start) :]] = writers[kind].write(given[kind].get(full))
        nodes[layer] = node
        if layer:
            around = layer.rpartition(".")[0]
            while around not in nodes:
                around = around.rpartition(".")[0]
            nodes[around]["children"].append(node)
    head = {
        "model_name": name,
        "class": type(selection.model).__name__,
        "framework": selection.framework.name,
    }
    _json(folder / file, {**head, "tree": nodes[""]})


def read_parameters(folder: Path, kind: str) -> tuple[LayerRun, dict[str, np.ndarray | None]]:
    """The layers with their parameters, and the values of ``kind`` (``"weights"`` or ``"grads"``) by name."""
    files = [folder / f"{stem}.json" for stem in (kind, "params")]
    file = next((f for f in files if f.exists()), files[1])
    data = _load(file)
    values: dict[str, np.ndarray | None] = {}

    def call(node: dict[str, Any]) -> LayerCall:
        name = node.get("layer", _layer(node["route"], data["model_name"]))
        own = {
            n: Parameter(tuple(p["shape"]), tuple(p["print"])) for n, p in node.get("parameters", {}).items()
        }
        for key, item in node.get(kind, {}).items():
            array = values[f"{name}.{key}" if name else key] = _array(item, folder)
            if key not in own and array is not None:
                own[key] = parameter(array)
        return LayerCall(name, node["name"], own, children=[call(c) for c in node["children"]])

    try:
        run = LayerRun(data.get("class", data["model_name"]), data["framework"], [call(data["tree"])])
    except _MALFORMED as error:
        raise _malformed(file, error) from error
    return run, values


def _array(item: Any, folder: Path) -> np.ndarray | None:
    if item is None:
        return None
    given = Path(item["path"] if isinstance(item, dict) else item)
    places = [folder / given, folder / given.parent.name / given.name]
    place = next((p for p in places if p.is_file()), None)
    if place is None:
        raise TraceError(f"{folder} misses {given.parent.name}/{given.name}; copy the whole folder")
    try:
        array: np.ndarray = np.load(place, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise TypeError("an archive")
    except (
        *_MALFORMED,
        OSError,
        EOFError,
        MemoryError,
        SyntaxError,
        tokenize.TokenError,
        zipfile.BadZipFile,
    ) as error:
        raise TraceError(f"{place} is not a readable .npy file: {error}") from error
    dtype = item.get("dtype", "") if isinstance(item, dict) else ""
    if dtype in _BITS:
        import ml_dtypes

        array = array.astype(getattr(ml_dtypes, dtype))
    return array


def _layer(route: str, model: str) -> str:
    return route[len(model) + 1 :] if route.startswith(model) else route.partition(".")[2]


def _clear(folder: Path, file: str, *kinds: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).unlink(missing_ok=True)
    for kind in kinds:
        for old in (folder / kind).glob(f"{kind}_*.npy"):
            old.unlink()


def _json(file: Path, data: dict[str, Any]) -> None:
    part = file.with_suffix(".part")
    part.write_text(json.dumps(data, indent=1))
    part.replace(file)  # a report that is there is whole


def _load(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        raise TraceError(
            f"{file} does not exist; dump the model there first (try_dump, dump_report, dump_params)"
        ) from None
    except (ValueError, OSError, RecursionError) as error:
        raise _malformed(file, error) from error


def _malformed(file: Path, error: Exception) -> TraceError:
    return TraceError(
        f"{file} is not a dump that can be read ({type(error).__name__}: {error}); dump it again"
    )
