"""Helpers of the interception tests."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(config, items):
    if "slow" in (config.getoption("-m") or "") or os.environ.get("OPTRACE_SLOW"):
        return
    skip = pytest.mark.skip(reason="slow; run with -m slow")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)


@pytest.fixture
def run_python(tmp_path):
    """Run a program of its own; returns what it printed. Fails when the program does."""

    def run(code, *args):
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(code))
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "GLOG_minloglevel": "2"}
        done = subprocess.run(
            [sys.executable, str(script), *args],
            capture_output=True,
            text=True,
            env=env,
            cwd=tmp_path,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.strip()

    return run


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """No test leaves a patch, a mode or an observer."""
    yield
    from optrace.intercept import hub

    for h in hub._hubs.values():
        assert not h._observers and h._patches is None and not h._lifted
    torch = sys.modules.get("torch")
    if torch is not None:
        from torch.overrides import _get_current_function_mode_stack

        assert not _get_current_function_mode_stack()


@pytest.fixture(params=["torch", "paddle"])
def framework(request):
    """Both frameworks, one after the other."""
    return pytest.importorskip(request.param)
