"""What came of a soak: a verdict on each curve, the account of messages, and what went wrong."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.soak import chart
from tests.soak.account import Totals
from tests.soak.curves import Verdict
from tests.soak.plan import Plan
from tests.soak.readings import Tables
from tests.soak.recorder import Recorder

TABLES_SHOWN: Final = 12
FAILED: Final = 1
INTERRUPTED: Final = 130


@dataclass(slots=True)
class Report:
    """What is known at the end. `lines` are said, `problems` make the soak fail."""

    folder: Path
    plan: Plan
    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def code(self) -> int:
        """Return the exit code."""
        return INTERRUPTED if self.interrupted else FAILED if self.problems else 0

    def account(self, totals: Totals) -> None:
        """Add what became of all messages."""
        self.lines.append(str(totals))
        if totals.lost:
            self.problems.append(f"{totals.lost:,} acknowledged messages were lost")

    def tables(self, tables: Tables) -> None:
        """Add the largest tables."""
        largest = sorted(tables.items(), key=lambda item: -item[1].size_mb)[:TABLES_SHOWN]
        self.lines += [
            f"table {name}: {table.live:,} rows, {table.dead:,} dead, {table.size_mb:.1f} MB"
            for name, table in largest
        ]

    def write(self, recorder: Recorder) -> None:
        """Print all, and write it and the picture."""
        since = self.plan.warm_up_s
        verdicts = recorder.verdicts(since=since)
        self.problems += not_flat(verdicts)
        curves = [f"{of}: {name}: {verdict}" for (name, of), verdict in verdicts.items()]
        wrong = [f"WRONG: {each}" for each in self.problems] or ["nothing is wrong"]
        if self.interrupted:
            wrong.append("it was interrupted: what is above is not all")
        text = "\n".join([*curves, *self.lines, *wrong]) + "\n"
        sys.stdout.write(text)
        (self.folder / "soak.txt").write_text(text)
        title = f"Soak of {self.plan.seconds / 60:g} minutes: {wrong[0]}"
        path = self.folder / "soak.png"
        chart.draw(path, recorder.points, verdicts, title=title, since=since)


def not_flat(verdicts: Mapping[tuple[str, str], Verdict]) -> list[str]:
    """Return a line for each curve that is judged and not flat."""
    return [
        f"{of}: {name} grows by {verdict.slope:.3g} in an hour (limit {verdict.limit:g})"
        for (name, of), verdict in verdicts.items()
        if verdict.flat is False
    ]
