"""`python -m tests.fuzz`: tries bytes that nobody thought of, guided by the code that they reach.

    python -m tests.fuzz install                        # once
    python -m tests.fuzz --minutes 10                   # each target for ten minutes
    python -m tests.fuzz --minutes 1 --only avro paths  # some
    python -m tests.fuzz --only avro --input FILE       # what the fuzzer found, once more

What it finds is under `build/fuzz/TARGET/`, as `found-…`. The exit code is 1 if anything was found.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.architecture.tree import ROOT
from tests.fuzz import corpora, engine
from tests.fuzz.targets import TARGETS, target_of

FOLDER: Final = ROOT / "build" / "fuzz"


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say; return the exit code."""
    if list(arguments) == ["install"]:
        engine.install()
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--only", nargs="+", choices=TARGETS, default=tuple(TARGETS))
    parser.add_argument("--input", type=Path)
    chosen = parser.parse_args(arguments)
    if chosen.input is not None:
        for name in chosen.only:
            target_of(name).check(chosen.input.read_bytes())
        return 0
    return fuzz_all(chosen.only, seconds=int(60 * chosen.minutes))


def fuzz_all(names: Sequence[str], *, seconds: int) -> int:
    """Fuzz one after the other, and say which had findings, and how to repeat those."""
    said = []
    for name in names:
        folder = FOLDER / name
        corpora.unpack(name, folder / "corpus")
        before = set(folder.glob("found-*"))
        code = engine.fuzz(name, folder, seconds=seconds)
        found = sorted(set(folder.glob("found-*")) - before)
        if code or found:
            said += [f"{name}: python -m tests.fuzz --only {name} --input {path}" for path in found]
            said += [] if found else [f"{name}: the fuzzer ended with {code}, and kept no input"]
    sys.stdout.write("\n".join([*said, f"{len(names)} targets, {len(said)} findings"]) + "\n")
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
