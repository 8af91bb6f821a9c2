"""What the fuzzer starts from: seeds of the targets, and inputs that it once found.

`tests/fuzz/corpus/NAME.txt` has an input in each line, as a Python literal of bytes: those that
reach the most code with the fewest bytes, and each one that ever showed a bug.
"""

import ast
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.fuzz.targets import target_of

CORPUS: Final = Path(__file__).with_name("corpus")
# Of each target, so that all stay small beside the code that they test.
KEPT_MAX: Final = 60
KEPT_BYTES_MAX: Final = 400


def kept(name: str) -> list[bytes]:
    """The inputs of a target that the repository has."""
    path = CORPUS / f"{name}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [ast.literal_eval(line) for line in lines]


def inputs(name: str) -> list[bytes]:
    """All that is tried first."""
    return [*target_of(name).seeds, *kept(name)]


def keep(name: str, found: Iterable[bytes]) -> None:
    """Put the smallest of these inputs into the repository, beside those it has."""
    small = sorted({each for each in found if len(each) <= KEPT_BYTES_MAX}, key=len)
    before = kept(name)
    added = [each for each in small if each not in before][: max(0, KEPT_MAX - len(before))]
    lines = [f"{each!r}\n" for each in (*before, *added)]
    (CORPUS / f"{name}.txt").write_text("".join(lines))


def unpack(name: str, folder: Path) -> None:
    """Write all inputs of a target as files, as the fuzzer wants them."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in inputs(name):
        (folder / sha256(each).hexdigest()[:24]).write_bytes(each)
