"""Runs the command line as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optrace.cli import app

ROOT = Path(__file__).parents[2]
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def optrace_cli(tmp_path: Path) -> Command:
    """``optrace_cli(*words)`` in an empty folder, output captured."""

    def run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", **environment}
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "optrace", *map(str, words)],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.fixture
def in_process() -> Callable[..., tuple[int, str]]:
    """The same without a process of its own, for commands that touch no framework: status and output."""

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, words)
        return done.exit_code, done.output

    return run
