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
    """Rows of JSON as a file with the name `name`.

    `columns` are names of fields. `total.p50` is the field `p50` of the object `total`.
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
    """Return the value of a cell. A text that looks like a formula begins with an apostrophe."""
    value: Any = row
    for name in column.split("."):
        value = None if value is None else value.get(name)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
