"""What people who come from elsewhere are told to use exists, by the name that they are told."""

import re
from typing import Final

from tests.architecture.tree import ROOT

_ROW: Final = re.compile(r"^\| (?P<there>.+?) \| (?P<here>.+) \|$")
# A name of ours: a setting, a query parameter, a code, a header, or a variable of the environment.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z]*(?:[A-Z_-][A-Za-z_]*)+")


def named() -> set[str]:
    """All names of ours, in the right-hand column."""
    lines = (ROOT / "docs" / "coming-from.md").read_text().splitlines()
    rows = [found["here"] for line in lines if (found := _ROW.match(line))]
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    theirs = re.compile(r"#\[.*\]")
    return {name for text in quoted for name in _NAME.findall(theirs.sub("", text))}


def test_what_is_said_to_be_there_is_there() -> None:
    known = "".join((ROOT / name).read_text() for name in ("openapi.yaml", "docs/settings.md"))
    assert len(named()) > 40
    assert {name for name in named() if name not in known} == set()
