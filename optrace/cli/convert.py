"""``optrace convert``: a checkpoint from one framework's format to the other's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

import optrace


def command(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A checkpoint file, or a folder of shards.")],
    target: Annotated[
        Path, typer.Argument(metavar="DST", help="The file to write; its ending says the format.")
    ],
    rules: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads it at run time
        typer.Option(metavar="FILE", help="Rules: rename, transpose, split, merge, drop, cast."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be written, write nothing.")
    ] = False,
) -> None:
    """Convert a checkpoint (.bin, .pt, .pth, .safetensors, .pdparams), one tensor at a time.

    A key that no rule accounts for is an error, never dropped in silence.

    \b
    Examples:
      optrace convert model.safetensors model.pdparams --dry-run
      optrace convert pytorch_model.bin model.pdparams --rules bert.toml
    """
    typer.echo(str(optrace.convert_checkpoint(source, target, rules=rules, dry_run=dry_run)))
