"""Writes a report as one HTML file, without scripts and without links to other files."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from app.cli.output import printable
from app.cli.reports.report import Bar, BarChart, Report

# Colours that people with any colour vision can tell apart (Okabe and Ito).
_COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#999999")
_LABELS: Final = 260
_BARS: Final = 460
_VALUES: Final = 120
_LINE: Final = 22
_LABEL_LENGTH_MAX: Final = 38

_HEAD: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem }}
table {{ border-collapse: collapse; font-size: 13px }}
th, td {{ border-bottom: 1px solid #ddd; padding: .25rem .6rem; text-align: left }}
td.number, th.number {{ text-align: right; font-variant-numeric: tabular-nums }}
svg {{ max-width: 100%; font: 12px system-ui, sans-serif }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #eee }}
  svg text {{ fill: #eee }} th, td {{ border-color: #444 }} }}
</style>
</head>
<body>
"""


def page_of(report: Report) -> str:
    """Return the report as HTML."""
    return "".join(_parts(report))


def _parts(report: Report) -> Iterator[str]:
    yield _HEAD.format(title=_text(report.title))
    yield f"<h1>{_text(report.title)}</h1>\n<p>{_text(report.subtitle)}</p>\n"
    if report.conclusions:
        lines = "".join(f"<li>{_text(each)}</li>\n" for each in report.conclusions)
        yield f"<ul>\n{lines}</ul>\n"
    for chart in report.charts:
        yield f"<h2>{_text(chart.title)}</h2>\n{svg_of(chart)}\n"
    yield from _table(report)
    yield "</body>\n</html>\n"


def _table(report: Report) -> Iterator[str]:
    numeric = [
        bool(report.rows) and all(isinstance(row[index], int | float) for row in report.rows)
        for index in range(len(report.columns))
    ]
    yield "<table>\n<thead>\n"
    yield _row("th", report.columns, numeric)
    yield "</thead>\n<tbody>\n"
    for row in report.rows:
        yield _row("td", row, numeric)
    yield "</tbody>\n</table>\n"


def _row(tag: str, cells: Sequence[object], numeric: Sequence[bool]) -> str:
    styles = (' class="number"' if is_number else "" for is_number in numeric)
    written = (
        f"<{tag}{style}>{_text(cell)}</{tag}>" for cell, style in zip(cells, styles, strict=True)
    )
    return f"<tr>{''.join(written)}</tr>\n"


def svg_of(chart: BarChart) -> str:
    """Return the chart as an inline SVG."""
    lines = 1 if chart.are_parts else len(chart.series)
    height = _LINE * (1 + sum(lines for _ in chart.bars))
    width = _LABELS + _BARS + _VALUES
    totals = [sum(bar.values) if chart.are_parts else max(bar.values) for bar in chart.bars]
    most = chart.most or max(totals, default=0) or 1
    drawn = "".join(
        _bar(chart, bar, top=_LINE * (1 + index * lines), most=most)
        for index, bar in enumerate(chart.bars)
    )
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        f' aria-label="{_text(chart.title)}">\n{_legend(chart)}{drawn}</svg>'
    )


def _legend(chart: BarChart) -> str:
    step = _BARS // max(len(chart.series), 1)
    return "".join(
        f'<rect x="{_LABELS + index * step}" y="4" width="10" height="10" fill="{_colour(index)}"/>'
        f'<text x="{_LABELS + index * step + 14}" y="13">{_text(name)}</text>\n'
        for index, name in enumerate(chart.series)
    )


def _bar(chart: BarChart, bar: Bar, *, top: int, most: float) -> str:
    drawn = [_label(bar.label, top=top)]
    x, y = float(_LABELS), top
    for index, (name, value) in enumerate(zip(chart.series, bar.values, strict=True)):
        wide = _BARS * min(value / most, 1)
        about = f"<title>{_text(name)}: {value:g}{_text(chart.unit)}</title>"
        size = f'width="{wide:.1f}" height="{_LINE - 7}" fill="{_colour(index)}"'
        drawn.append(f'<rect x="{x:.1f}" y="{y + 3}" {size}>{about}</rect>\n')
        if chart.are_parts:
            x += wide
        else:
            drawn.append(_value(value, chart.unit, x=x + wide, y=y))
            y += _LINE
    if chart.are_parts:
        drawn.append(_value(sum(bar.values), chart.unit, x=x, y=y))
    return "".join(drawn)


def _label(label: str, *, top: int) -> str:
    is_short = len(label) <= _LABEL_LENGTH_MAX
    shown = label if is_short else f"{label[:_LABEL_LENGTH_MAX]}…"
    attributes = f'x="{_LABELS - 8}" y="{top + 14}" text-anchor="end"'
    return f"<text {attributes}>{_text(shown)}<title>{_text(label)}</title></text>\n"


def _value(value: float, unit: str, *, x: float, y: int) -> str:
    return f'<text x="{x + 5:.1f}" y="{y + 14}">{value:,.6g}{_text(unit)}</text>\n'


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]


def _text(value: object) -> str:
    return escape(printable(str(value)))
