"""The command line. Every command is a thin layer over the library; this file puts them together."""

from __future__ import annotations

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
