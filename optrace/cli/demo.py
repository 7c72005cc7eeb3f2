"""``optrace demo``: the examples that come with optrace, run where they are."""

from __future__ import annotations

import runpy
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from optrace.cli.output import fail, line
from optrace.errors import FrameworkMissing, OptraceError

# Example -> what it needs besides torch and paddle.
EXAMPLES = {"resnet18": "transformers", "bert_block": "transformers", "small_pair": None}


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
    TransformerEncoderLayer. Otherwise a small pair written for the purpose.

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
    able = [n for n, needs in EXAMPLES.items() if needs is None or find_spec(needs) is not None]
    if name and name not in able:
        raise FrameworkMissing(f"{name} needs {EXAMPLES[name]}: pip install optrace[demo]")
    chosen = [name] if name else able[:-1] or able
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
