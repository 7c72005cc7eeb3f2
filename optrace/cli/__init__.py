"""The command line. Every command is a thin layer over the library; this file puts them together."""

from __future__ import annotations

import logging
import sys
from typing import Annotated, NoReturn

import typer

from optrace.cli import audit, convert, demo, diff, doctor, ops, run, show
from optrace.cli.output import fail
from optrace.errors import OptraceError
from optrace.version import __version__

app = typer.Typer(
    name="optrace",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("run", context_settings={"allow_interspersed_args": False})(run.command)
for name, command in (
    ("diff", diff.command),
    ("show", show.command),
    ("audit", audit.command),
    ("convert", convert.command),
    ("ops", ops.command),
    ("doctor", doctor.command),
    ("demo", demo.command),
):
    app.command(name)(command)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"optrace {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "-v", "--verbose", count=True, help="Tell on standard error what is done; -vv tells more."
        ),
    ] = 0,
) -> None:
    """Find the API call, the argument and the source line where a PyTorch model and its PaddlePaddle
    port part.

    \b
    Trace both programs, then compare the two traces:
      optrace run -o runs/base train_torch.py
      optrace run -o runs/raw  train_paddle.py
      optrace diff runs/base runs/raw

    \b
    No model at hand?   optrace demo
    Does it work here?  optrace doctor
    """
    if verbose:
        _tell(logging.DEBUG if verbose > 1 else logging.INFO)


def _tell(level: int) -> None:
    """Show what is logged, on standard error and without touching the logging of a program that is traced."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logger = logging.getLogger("optrace")
    logger.addHandler(handler)
    logger.setLevel(level)


def main() -> NoReturn:
    """The console script. Errors of ours become one message and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        app(args=run.separated(sys.argv[1:]))
    except OptraceError as error:
        fail(str(error))
    raise SystemExit(0)
