"""A report: a table, conclusions, and charts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import typer


class ReportForm(StrEnum):
    """The form in which a report is written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    HTML = "html"


def form_of(*, as_json: bool, as_csv: bool, as_html: bool) -> ReportForm:
    """Return the form that the options ask for.

    Raises:
        typer.BadParameter: The options ask for several forms.
    """
    options = {ReportForm.JSON: as_json, ReportForm.CSV: as_csv, ReportForm.HTML: as_html}
    wanted = [form for form, is_set in options.items() if is_set]
    if len(wanted) > 1:
        raise typer.BadParameter("give only one of --json, --csv and --html")
    return wanted[0] if wanted else ReportForm.TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of a chart: its label, and a value for each series of the chart."""

    label: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    """Horizontal bars. The values of a bar are drawn as parts of one bar, or below each other.

    `most` is the value of a bar of full length; None means the largest value of the chart.
    """

    title: str
    series: Sequence[str]
    bars: Sequence[Bar]
    unit: str = ""
    are_parts: bool = True
    most: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A table with its conclusions. `raw` is the complete answer of the API."""

    title: str
    subtitle: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    conclusions: Sequence[str] = ()
    charts: Sequence[BarChart] = ()
    raw: Mapping[str, Any]
