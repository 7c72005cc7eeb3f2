"""``optrace demo``: the examples that come with optrace, run where they are."""

from __future__ import annotations

import importlib
import runpy
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from optrace.cli.output import fail, line, note
from optrace.errors import FrameworkMissing, OptraceError

# Example -> the module it needs besides torch and paddle.
EXAMPLES = {
    "resnet18": "transformers.models.resnet.modeling_resnet",
    "bert_block": "transformers.models.bert.modeling_bert",
    "small_pair": None,
}
PUBLISHED = [name for name, needs in EXAMPLES.items() if needs]


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]", help="resnet18, bert_block or small_pair [default: what can run here]."
        ),
    ] = "",
) -> None:
    """Carry weights over, compare, change one argument, and have it named.

    With transformers installed: its ResNet-18 against paddle's own, and a BERT layer against paddle's
    TransformerEncoderLayer. Otherwise (or where it does not load) a small pair written for the purpose.

    \b
    Examples:
      optrace demo
      optrace demo bert_block
    """
    if name and name not in EXAMPLES:
        fail(f"there is no demo {name!r}; there are {', '.join(EXAMPLES)}")
    for framework in ("torch", "paddle"):
        if find_spec(framework) is None:
            raise FrameworkMissing(
                f"the demo needs torch and paddle; {framework} is missing: pip install optrace[{framework}]"
            )
    wanted = [name] if name else PUBLISHED
    missing = {n: why for n in wanted if (why := _missing(EXAMPLES[n]))}
    if name and missing:
        raise FrameworkMissing(f"{name} needs {missing[name]}")
    for n, why in missing.items():
        note(f"{n} is left out: it needs {why}")
    chosen = [n for n in wanted if n not in missing] or ["small_pair"]
    for each in chosen:
        path = _folder() / f"{each}.py"
        line(f"# {path}", bold=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runpy.run_path(str(path), run_name="__main__")


def _folder() -> Path:
    """The examples: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "examples", package.parent / "examples"):
        if folder.is_dir():
            return folder
    raise OptraceError(f"the examples are missing: no folder in or beside {package}; reinstall optrace")


def _missing(module: str | None) -> str:
    """What to do to have ``module``, or nothing. It is imported, since one that is installed may still not load."""
    if module is None:
        return ""
    package = module.partition(".")[0]
    if find_spec(package) is None:
        return f"{package}: pip install 'optrace[demo]'"
    try:
        importlib.import_module(module)
    except Exception as error:
        return f"{package}, which is installed but does not load ({error}): pip install 'optrace[demo]'"
    return ""
