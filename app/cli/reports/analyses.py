"""Reports of Spark's analyses: undelivered messages, failures, latency and SLOs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from app.cli import output
from app.cli.errors import CliError
from app.cli.reports.report import Bar, BarChart, Report

# The maximum number of bars in a chart, so that it stays readable.
_BARS_MAX: Final = 20
_TIMES: Final = ("p50", "p95", "p99")

Answer = Mapping[str, Any]


def undelivered_report(found: Answer) -> Report:
    """Return the report that says how many messages were discarded."""
    counts = found["counts"]
    keys = [name for name in _COUNTED if any(name in each for each in counts)]
    rows = [
        [*(_key(each, name) for name in keys), each["messages"], each["attempts"], each["bytes"]]
        for each in counts
    ]
    bars = [
        Bar(label=" ".join(map(str, row[: len(keys)])), values=[row[len(keys)]]) for row in rows
    ]
    return Report(
        title="Undelivered messages",
        subtitle=_scope(found),
        columns=[*(name.upper() for name in keys), "MESSAGES", "ATTEMPTS", "BYTES"],
        rows=rows,
        charts=[BarChart(title="Messages", series=["messages"], bars=bars[:_BARS_MAX])],
        raw=found,
    )


def failures_report(found: Answer) -> Report:
    """Return the report of failures: a row and a probable cause for each group of similar ones."""
    clusters = found["clusters"]
    rows = [
        [
            each["messages"], each.get("status", ""), _time(each["firstAt"]), _time(each["lastAt"]),
            each["subscriptions"], each["pattern"], each["topic"], each["error"], each["shape"],
            each["exampleMessageId"],
        ]
        for each in clusters
    ]  # fmt: skip
    bars = [
        Bar(label=f"{each.get('status', '')} {each['error']}", values=[each["messages"]])
        for each in clusters
    ]
    return Report(
        title="Failures",
        subtitle=_scope(found),
        columns=[
            "MESSAGES", "STATUS", "SINCE", "LAST", "SUBSCRIPTIONS", "PATTERN", "TOPIC", "ERROR",
            "SHAPE", "EXAMPLE",
        ],
        rows=rows,
        conclusions=[_cluster_conclusion(each) for each in clusters],
        charts=[BarChart(title="Messages", series=["messages"], bars=bars[:_BARS_MAX])],
        raw=found,
    )  # fmt: skip


def latency_report(found: Answer) -> Report:
    """Return the report of delivery latencies, in milliseconds."""
    timed = [each for each in found["subscriptions"] if each.get("total")]
    rows = [
        [
            _name(each), each["delivered"], *(each["total"][name] for name in (*_TIMES, "max")),
            *(_p95(each, part) for part in ("queued", "waited", "connect", "subscriber")),
        ]
        for each in timed
    ]  # fmt: skip
    bars = [
        Bar(label=_name(each), values=[each["total"][name] for name in _TIMES]) for each in timed
    ]
    untimed = [_name(each) for each in found["subscriptions"] if not each.get("total")]
    return Report(
        title="Latency",
        subtitle=f"{_scope(found)}; milliseconds, the last four at p95",
        columns=[
            "SUBSCRIPTION", "DELIVERED", "P50", "P95", "P99", "MAX", "QUEUED", "WAITED", "CONNECT",
            "SUBSCRIBER",
        ],
        rows=rows,
        conclusions=[f"No time is known of messages to {name}" for name in untimed],
        charts=[
            BarChart(
                title="From publication to delivery", series=_TIMES, bars=bars[:_BARS_MAX],
                unit=" ms", are_parts=False,
            )
        ],
        raw=found,
    )  # fmt: skip


def slo_report(found: Answer) -> Report:
    """Return the report that says what percentage of messages was delivered within the SLO's time.

    Raises:
        CliError: The job was requested without an SLO.
    """
    seconds = found["scope"].get("sloSeconds")
    if seconds is None:
        raise CliError(
            f"Job {found['jobId']} has no SLO",
            hint="Let a job hold deliveries against one: --watch --slo SECONDS",
        )
    known = [each for each in found["subscriptions"] if each.get("attained") is not None]
    rows = [
        [
            _name(each), round(100 * each["attained"], 4), each["within"], each["delivered"],
            each["discarded"], each["unknown"],
        ]
        for each in known
    ]  # fmt: skip
    bars = [Bar(label=_name(each), values=[100 * each["attained"]]) for each in known]
    return Report(
        title=f"Delivered within {seconds:g} s",
        subtitle=_scope(found),
        columns=["SUBSCRIPTION", "ATTAINED %", "WITHIN", "DELIVERED", "DISCARDED", "UNKNOWN"],
        rows=rows,
        charts=[
            BarChart(title="Attained", series=["share"], bars=bars[:_BARS_MAX], unit=" %", most=100)
        ],
        raw=found,
    )


_COUNTED: Final = ("topic", "subscription", "reason", "status", "hour")


def _cluster_conclusion(cluster: Answer) -> str:
    return f"{cluster['topic']}, {cluster['messages']} messages: {cluster['cause']}"


def _key(count: Answer, name: str) -> object:
    value = count.get(name, "")
    return _time(value) if name == "hour" and value else value


def _p95(latency: Answer, part: str) -> object:
    times = latency.get(part)
    return "" if times is None else times["p95"]


def _name(latency: Answer) -> str:
    return f"{latency['topic']}/{latency['subscription']}"


def _scope(found: Answer) -> str:
    scope = found["scope"]
    names: Sequence[str] = [scope[name] for name in ("topic", "subscription") if scope.get(name)]
    what = "/".join(names) or "all topics"
    return f"{what}, {_time(scope['from'])} to {_time(scope['to'])} (job {found['jobId']})"


def _time(text: str) -> str:
    return output.local_seconds(datetime.fromisoformat(text))
