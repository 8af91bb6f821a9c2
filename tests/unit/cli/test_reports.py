"""Reports of analyses and ledgers: as tables, CSV, and HTML that loads nothing."""

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import typer

from app.api.management.insight.analytics_bodies import failure_analysis, undelivered_analysis
from app.api.management.insight.latency_bodies import latency_analysis
from app.cli.errors import CliError
from app.cli.reports.analyses import (
    failures_report,
    latency_report,
    slo_report,
    undelivered_report,
)
from app.cli.reports.page import page_of, svg_of
from app.cli.reports.report import Bar, BarChart, ReportForm, form_of
from app.cli.reports.writing import csv_of
from app.domain.insight.analytics import FailureCluster, FailurePattern, UndeliveredCount
from app.domain.job import Job, JobKind, JobScope, JobState
from app.domain.latency import Figure, LatencyPart, SubscriptionLatency

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
EVIL = '<script>alert("1")</script>'


def a_job(slo: timedelta | None = None) -> Job:
    scope = JobScope(start=NOON, end=NOON + timedelta(hours=2), topic="shop.orders", slo=slo)
    kind = JobKind.LATENCY_ANALYTICS
    return Job(id="4f1c", kind=kind, scope=scope, state=JobState.DONE, requested_at=NOON)


def a_cluster(**settings: Any) -> FailureCluster:  # noqa: ANN401 - fields of the value
    values: dict[str, Any] = {
        "topic": "shop.orders", "status": 400, "error": "bad, really", "shape": "{a}",
        "pattern": FailurePattern.ONE_SUBSCRIPTION, "messages": 7, "subscriptions": 1, "shapes": 2,
        "first_at": NOON + timedelta(minutes=2), "last_at": NOON + timedelta(minutes=9),
        "example_id": "m-1", "example_subscription": "billing", "example_reason": EVIL,
    }  # fmt: skip
    return FailureCluster(**values | settings)


def failures_found(**settings: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of the value
    return failure_analysis(a_job(), [a_cluster(**settings)]).answered()


def a_latency(subscription: str, *, is_known: bool, within: int | None) -> SubscriptionLatency:
    times = {each: timedelta(milliseconds=place * 10) for place, each in enumerate(Figure)}
    return SubscriptionLatency(
        topic="shop.orders", subscription=subscription, subscription_id="s-1", delivered=99,
        discarded=1, unknown=0 if is_known else 100, resent=0, attempts=120, within=within,
        times=dict.fromkeys(LatencyPart, times) if is_known else {},
    )  # fmt: skip


def latencies_found(slo: timedelta | None = None) -> dict[str, Any]:
    within = None if slo is None else 98
    known = [
        a_latency(name, is_known=name == "billing", within=within) for name in ("billing", "x")
    ]
    return latency_analysis(a_job(slo), known).answered()


def test_counts_are_reported_by_what_they_are_counted_by() -> None:
    counts = [
        UndeliveredCount(reason="bad", status=400, messages=5, attempts=6, volume=70),
        # Without a status.
        UndeliveredCount(reason="late", messages=1, attempts=1, volume=0),
    ]
    report = undelivered_report(undelivered_analysis(a_job(), counts).answered())
    assert report.columns == ["REASON", "STATUS", "MESSAGES", "ATTEMPTS", "BYTES"]
    assert report.rows == [["bad", 400, 5, 6, 70], ["late", "", 1, 1, 0]]
    assert report.charts[0].bars[0] == Bar(label="bad 400", values=[5])
    assert "shop.orders" in report.subtitle


def test_a_cluster_names_its_likely_cause() -> None:
    [said] = failures_report(failures_found(cause="400 since noon: the publisher")).conclusions
    assert said == "shop.orders, 7 messages: 400 since noon: the publisher"


def test_latency_has_its_percentiles_and_where_the_time_went() -> None:
    report = latency_report(latencies_found())
    assert report.rows == [["shop.orders/billing", 99, 10, 20, 30, 40, 20, 20, 20, 20]]
    assert report.conclusions == ["No time is known of messages to shop.orders/x"]
    assert report.charts[0].bars[0].values == [10, 20, 30]


def test_an_slo_is_reported_as_the_share_that_attained_it() -> None:
    with pytest.raises(CliError, match="no SLO"):
        slo_report(latencies_found())
    report = slo_report(latencies_found(timedelta(seconds=2.5)))
    assert report.title == "Delivered within 2.5 s"
    assert report.rows == [["shop.orders/billing", 98.0, 98, 99, 1, 0]]
    assert report.charts[0].most == 100


def test_csv_is_read_back_as_it_was() -> None:
    report = failures_report(failures_found())
    header, row = csv.reader(io.StringIO(csv_of(report)))
    assert header[:2] == ["messages", "status"]
    assert row[:2] == ["7", "400"]
    assert "bad, really" in row


def test_a_page_has_its_charts_in_it_and_loads_nothing_from_elsewhere() -> None:
    page = page_of(failures_report(failures_found(error=EVIL, shape=EVIL, topic=EVIL)))
    assert page.count("<svg ") == 1
    assert "<script" not in page
    assert not re.search(r"(src|href)=|https?://|@import|url\(", page)
    assert "default-src 'none'" in page
    table = ET.fromstring(page[page.index("<table>") : page.index("</table>") + 8])  # noqa: S314 - our own
    assert EVIL in [cell.text for cell in table.iter("td")]


def test_bars_are_as_long_as_their_values() -> None:
    bars = [Bar(label="one", values=[10, 30]), Bar(label="two" * 40, values=[0, 20])]

    def widths(chart: BarChart) -> list[float]:
        drawn = ET.fromstring(svg_of(chart))  # noqa: S314 - our own
        return [float(each.attrib["width"]) for each in drawn.iter("rect")][len(chart.series) :]

    parts = widths(BarChart(title="t", series=["a", "b"], bars=bars))
    assert parts == [115, 345, 0, 230]
    beside = widths(BarChart(title="t", series=["a", "b"], bars=bars, are_parts=False))
    assert beside == pytest.approx([460 / 3, 460, 0, 920 / 3], abs=0.1)
    assert widths(BarChart(title="t", series=["a", "b"], bars=bars, most=80))[1] == 172.5
    assert widths(BarChart(title="t", series=["a"], bars=[Bar(label="x", values=[0])])) == [0]
    assert widths(BarChart(title="t", series=["a"], bars=[])) == []


def test_only_one_form_can_be_asked_for() -> None:
    assert form_of(as_json=False, as_csv=False, as_html=False) is ReportForm.TEXT
    assert form_of(as_json=False, as_csv=False, as_html=True) is ReportForm.HTML
    with pytest.raises(typer.BadParameter, match="only one"):
        form_of(as_json=True, as_csv=True, as_html=False)
