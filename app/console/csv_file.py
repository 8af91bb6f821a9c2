"""Tables that a browser saves as CSV files."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

# A spreadsheet reads a cell as a formula if it begins with one of these characters.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFile:
    """A table that a browser saves as a CSV file with the name `name`.

    Each of `rows` is a JSON object. Each of `columns` is the name of a field. The column
    `total.p50` is the field `p50` of the object `total`.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]

    @property
    def text(self) -> str:
        """The table as CSV (RFC 4180). A missing value is an empty cell."""
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(self.columns)
        writer.writerows([_cell(row, column) for column in self.columns] for row in self.rows)
        return text.getvalue()


def _cell(row: Mapping[str, Any], column: str) -> object:
    """Return the value of a cell.

    A text that a spreadsheet would read as a formula gets an apostrophe before it.
    """
    value: Any = row
    for name in column.split("."):
        value = None if value is None else value.get(name)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
