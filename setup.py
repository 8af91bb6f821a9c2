"""What pyproject.toml cannot say: with ANGELIA_NATIVE=1, the hot path is compiled by mypyc."""

import os
import tomllib
from pathlib import Path

from setuptools import Extension, setup


def compiled() -> list[Extension]:
    """Return the modules to compile, as one library that all of them share."""
    if os.environ.get("ANGELIA_NATIVE") != "1":
        return []
    from mypyc.build import mypycify  # noqa: PLC0415 - only a build that compiles needs it

    names = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["angelia"]["native"]
    paths = [f"{name.replace('.', '/')}.py" for name in names]
    return mypycify(
        paths,
        group_name="app.compiled",
        opt_level="2",
        debug_level="0",
        target_dir="build/native/c",
    )


setup(ext_modules=compiled())
