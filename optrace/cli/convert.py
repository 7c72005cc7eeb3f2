"""``optrace convert``: a checkpoint from one framework's format to the other's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

import optrace
from optrace.cli.models import pair
from optrace.cli.output import note, progress
from optrace.weights.rules import write


def command(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A checkpoint file, or a folder of shards.")],
    target: Annotated[
        Path, typer.Argument(metavar="DST", help="The file to write; its ending says the format.")
    ],
    rules: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads it at run time
        typer.Option(metavar="FILE", help="Rules: rename, transpose, split, merge, drop, cast."),
    ] = None,
    from_models: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="FILE.PY:FUNCTION",
            help="Find the rules from two models: the function returns the model of the checkpoint, the model to "
            "convert to, and (better) inputs for both.",
        ),
    ] = None,
    save_rules: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="FILE", help="Write the rules that were used (.toml or .json), to read and edit."
        ),
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
      optrace convert pytorch_model.bin model.pdparams --from-models port.py:models --save-rules bert.toml

    \b
    port.py:
      def models():
          return TorchNet(), PaddleNet(), {"x": numpy.zeros((1, 8), "float32")}
    """
    models = pair(from_models) if from_models is not None else None
    with progress("converting") as advance:
        report = optrace.convert_checkpoint(
            source, target, rules=rules, model=models, dry_run=dry_run, progress=advance
        )
    typer.echo(str(report))
    if save_rules is not None:
        write(
            save_rules,
            report.rules,
            f"{source.name} to {target.name}; the first rule that matches a name is used.",
        )
        note(f"rules written to {save_rules}")
