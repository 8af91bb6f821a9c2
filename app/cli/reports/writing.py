"""Writes reports as text, JSON, CSV or HTML."""

import csv
import io

from app.cli import output
from app.cli.reports.page import page_of
from app.cli.reports.report import Report, ReportForm


def write_report(report: Report, form: ReportForm) -> None:
    """Write the report to standard output."""
    match form:
        case ReportForm.TEXT:
            output.write_text(f"{report.title}: {report.subtitle}")
            output.write_table(report.columns, report.rows)
            if report.conclusions:
                output.write_text("\n" + "\n".join(report.conclusions))
        case ReportForm.JSON:
            output.write_json(report.raw)
        case ReportForm.CSV:
            output.out.out(csv_of(report), end="", highlight=False)
        case ReportForm.HTML:
            output.out.out(page_of(report), end="", highlight=False)


def csv_of(report: Report) -> str:
    """Return the table as CSV (RFC 4180, but lines end with LF only).

    No text is changed, because programs read the table. A spreadsheet may take a text for a
    formula.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(each.lower() for each in report.columns)
    writer.writerows(report.rows)
    return text.getvalue()
