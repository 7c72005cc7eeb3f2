"""Settings for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# On CI the same examples every time; elsewhere new ones, which may find something new.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
