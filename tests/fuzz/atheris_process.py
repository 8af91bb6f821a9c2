"""Fuzzes one target by atheris: in a process of its own, as the fuzzer ends it by itself.

What the product imports is instrumented, so that the fuzzer sees which code an input reaches.
"""

import importlib
import sys

import structlog


def main() -> None:
    """Run `atheris_process.py TARGET OPTIONS…`."""
    name = sys.argv.pop(1)
    # Neither is installed with the project, nor has types.
    atheris = importlib.import_module("atheris")
    structlog.configure(processors=[_drop])
    with atheris.instrument_imports(include=["app", "workers"]):
        # What a check imports while it runs is instrumented, too.
        target = importlib.import_module("tests.fuzz.targets").target_of(name)
        atheris.Setup(sys.argv, target.check)
        atheris.Fuzz()


def _drop(*_: object) -> str:
    raise structlog.DropEvent


if __name__ == "__main__":
    main()
