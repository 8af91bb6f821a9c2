"""What the fuzzer starts from: seeds of the targets, and inputs that it once found.

`tests/fuzz/corpus/NAME.txt` has an input in each line, as a Python literal of bytes: each one that
ever showed a bug of the product or of the comparison. What else a fuzzer finds on its way stays
under `build/fuzz`, for its next run.
"""

import ast
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.fuzz.targets import target_of

CORPUS: Final = Path(__file__).with_name("corpus")


def kept(name: str) -> list[bytes]:
    """The inputs of a target that the repository has."""
    path = CORPUS / f"{name}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [ast.literal_eval(line) for line in lines]


def inputs(name: str) -> list[bytes]:
    """All that is tried first."""
    return [*target_of(name).seeds, *kept(name)]


def unpack(name: str, folder: Path) -> None:
    """Write all inputs of a target as files, as the fuzzer wants them."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in inputs(name):
        (folder / sha256(each).hexdigest()[:24]).write_bytes(each)
