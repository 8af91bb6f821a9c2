"""Writes the table of docs/reliability.md from what `make bench ARGS="-k faults"` found.

Run it as `python -m tests.benchmarks.fault_page`. Cells that were not run keep their rows.
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.architecture.tree import ROOT
from tests.benchmarks.figures import FOLDER

PAGE: Final = ROOT / "docs" / "reliability.md"
BEGIN: Final = "<!-- faults: begin -->\n"
END: Final = "<!-- faults: end -->\n"
LOGS: Final = {"kafka": "Kafka", "postgres": "PostgreSQL"}
KINDS: Final = ("processes", "networks", "names")
COLUMNS: Final = ("no 201 for s", "no delivery for s", "all there after s", "duplicates")
HEAD: Final = (
    "| log | what happened | sent | no 201 for | no delivery for | all there after | duplicates |\n"
    "|---|---|---|---|---|---|---|\n"
)


def main() -> int:
    """Write the table; return the exit code."""
    found = {
        log: {row: figures for kind in KINDS for row, figures in _rows(kind, log).items()}
        for log in LOGS
    }
    if not any(found.values()):
        sys.stderr.write('nothing was measured: make bench ARGS="-k faults"\n')
        return 1
    PAGE.write_text(replaced(PAGE.read_text(), found))
    return 0


def replaced(page: str, found: Mapping[str, Mapping[str, Any]]) -> str:
    """The page with these rows, and with its old rows of cells that were not measured."""
    before, rest = page.split(BEGIN)
    table, after = rest.split(END)
    lines: dict[tuple[str, str], str] = {}
    for log, name in LOGS.items():
        lines |= {(name, row): text for text, row in re.findall(_row_of(name), table, re.MULTILINE)}
        lines |= {(name, row): line(name, row, each) for row, each in found.get(log, {}).items()}
    return before + BEGIN + HEAD + "".join(lines.values()) + END + after


def _row_of(log: str) -> str:
    """The pattern of a row of this log: all of it, and what happened."""
    return rf"^(\| {log} \| (.*?) \|.*\n)"


def line(log: str, row: str, figures: Mapping[str, Any]) -> str:
    """One row of the table."""
    seconds = [f"{figures[column]['median']:.1f} s" for column in COLUMNS[:-1]]
    cells = [log, row, f"{figures['sent']['median']:.0f}", *seconds]
    return f"| {' | '.join(cells)} | {figures['duplicates']['median']:.0f} |\n"


def _rows(kind: str, log: str) -> Mapping[str, Any]:
    path = Path(FOLDER) / f"faults-{kind}-{log}.json"
    rows: Mapping[str, Any] = json.loads(path.read_text())["rows"] if path.exists() else {}
    return rows


if __name__ == "__main__":
    sys.exit(main())
