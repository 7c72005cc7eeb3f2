"""Builds the package, with the op table and the examples as its data."""

import runpy
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = runpy.run_path(str(HERE / "optrace" / "version.py"))["__version__"]
# Folders at the top of the checkout that are installed inside the package.
DATA = {"optrace.op_mappings": "op_mappings", "optrace.examples": "examples"}

setup(
    name="optrace",
    version=VERSION,
    description="Finds the call at which a PyTorch model and its PaddlePaddle port part",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    python_requires=">=3.11",
    packages=[*find_packages(include=["optrace", "optrace.*"]), *DATA],
    package_dir={"optrace": "optrace", **DATA},
    package_data={
        "optrace": ["py.typed", "report/templates/*", "report/*.json"],
        "optrace.op_mappings": ["*.toml"],
        "optrace.examples": ["*.py"],
    },
    install_requires=[
        "jinja2>=3.1",
        "ml-dtypes>=0.4",
        "msgspec>=0.18",
        "numpy>=1.26",
        "rich>=13",
        "rtoml>=0.10",
        "safetensors>=0.4.3",
        "typer>=0.12",
        "wrapt>=1.16",
    ],
    extras_require={
        "torch": ["torch>=2.4"],
        "paddle": ["paddlepaddle>=3.0"],
        "demo": ["transformers==4.57.6"],
        "dev": [
            "expecttest>=0.2",
            "hypothesis>=6",
            "jsonschema>=4.18",
            "mypy>=1.11",
            "playwright>=1.40",
            "pytest>=8",
            "pytest-benchmark>=4",
            "pytest-xdist>=3",
            "ruff>=0.6",
            "transformers==4.57.6",
        ],
    },
    entry_points={
        "console_scripts": ["optrace=optrace.cli:main"],
        "pytest11": ["optrace=optrace.testing"],
    },
    zip_safe=False,
)
