"""Makes `angelia_client/sync` from `angelia_client/aio`: the same client, without its awaits.

`python -m tests.architecture.sync_client` writes it (`make client`).
"""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.architecture.tree import ROOT

SOURCE: Final = ROOT / "angelia_client" / "aio"
TARGET: Final = ROOT / "angelia_client" / "sync"

_WORDS: Final[Mapping[str, str]] = {
    r"\basync (def|with|for)\b": r"\1",
    r"\bawait ": "",
    r"\b__a(enter|exit)__\b": r"__\1__",
    r"\baclose\b": "close",
    r"\bAsyncIterator\b": "Iterator",
    r"\bhttpx\.AsyncClient\b": "httpx.Client",
    r"\bAsync([A-Z])": r"\1",
    r"\basyncio\.sleep\b": "time.sleep",
    r"\bimport asyncio\b": "import time",
    r"\bangelia_client\.aio\b": "angelia_client.sync",
    r"\bshared by tasks\b": "shared by threads",
}
_MARK: Final = "\n# Made from angelia_client/aio by `make client`: change it there.\n"
_OWN_WORDS: Final = '"""The client for threads, made from `angelia_client.aio`."""\n'


def made() -> Mapping[str, str]:
    """The text of each module, by its name."""
    modules = {path.name: _made(path) for path in sorted(SOURCE.glob("*.py"))}
    return modules | {"__init__.py": _OWN_WORDS}


def write() -> None:
    """Write the modules."""
    TARGET.mkdir(exist_ok=True)
    for name, text in made().items():
        (TARGET / name).write_text(text)


def _made(path: Path) -> str:
    text = path.read_text()
    for pattern, replacement in _WORDS.items():
        text = re.sub(pattern, replacement, text)
    docstring, rest = text.split('"""\n', 1)
    return _tidied(f'{docstring}"""\n{_MARK}{rest}', name=str(TARGET / path.name))


def _tidied(text: str, *, name: str) -> str:
    # Imports in their order, and the loops that are none any more without an `await` in them.
    mend = ("check", "--quiet", "--select", "I,UP028", "--fix", "--unsafe-fixes")
    for arguments in (mend, ("format",)):
        command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", name, "-"]
        done = subprocess.run(
            command, cwd=ROOT, input=text, capture_output=True, text=True, check=True
        )
        text = done.stdout
    return text


if __name__ == "__main__":
    write()
