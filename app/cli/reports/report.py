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
    """Return the form of the report that the command's options ask for; text without an option.

    Raises:
        typer.BadParameter: The options ask for more than one form.
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
    """A chart of horizontal bars.

    With `are_parts`, the values of each `Bar` are drawn one after another, as parts of one bar.
    Otherwise each value is a bar of its own, below the bar before it. A bar of full length has the
    value `most`; None: the largest value of the chart.
    """

    title: str
    series: Sequence[str]
    bars: Sequence[Bar]
    unit: str = ""
    are_parts: bool = True
    most: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A table with its charts and conclusions. `raw` is the complete answer of the API."""

    title: str
    subtitle: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    conclusions: Sequence[str] = ()
    charts: Sequence[BarChart] = ()
    raw: Mapping[str, Any]
