"""The results of Spark's analyses as CSV files."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.api.media import LIMIT_MAX
from app.console.api import ApiRefusedError
from app.console.csv_file import CsvFile
from app.console.pages.analytics import GROUPS, PARTS, found_analysis
from app.console.view import PageRoute, PageView, first_of

_COUNTED: Final = ("messages", "attempts", "bytes")
_CLUSTER: Final = (
    "topic", "status", "error", "shape", "pattern", "messages", "subscriptions", "shapes",
    "firstAt", "lastAt", "cause", "exampleMessageId", "exampleSubscription", "exampleReason",
)  # fmt: skip
_TIMES: Final = [
    f"{part}.{figure}"
    for part in ("total", *PARTS)
    for figure in ("mean", "p50", "p95", "p99", "max")
]
_LATENCY: Final = (
    "topic", "subscription", "subscriptionId", "delivered", "discarded", "unknown", "resent",
    "attempts", "within", "attained", *_TIMES,
)  # fmt: skip


async def save_failures(view: PageView) -> CsvFile:
    """Return the groups of similar failures of discarded messages, the largest group first."""
    found = await _found(view, "failures")
    return _file("failures", found, columns=_CLUSTER, rows=found["clusters"])


async def save_counts(view: PageView) -> CsvFile:
    """Return how many messages were discarded for each value of the field that the reader chose."""
    by = first_of(view.query, "by", tuple(GROUPS))
    found = await _found(view, "undelivered", by=by)
    return _file("discarded", found, columns=[*by.split(","), *_COUNTED], rows=found["counts"])


async def save_latency(view: PageView) -> CsvFile:
    """Return how many milliseconds messages took to each subscription, and in which step."""
    found = await _found(view, "latency")
    return _file("latency", found, columns=_LATENCY, rows=found["subscriptions"])


async def _found(view: PageView, what: str, **query: str) -> Mapping[str, Any]:
    found = await found_analysis(view, what, limit=LIMIT_MAX, **query)
    if found is None:
        raise ApiRefusedError(404, "There is no such result.")
    return found


def _file(
    name: str,
    found: Mapping[str, Any],
    *,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
) -> CsvFile:
    return CsvFile(name=f"{name}-{found['jobId']}.csv", columns=columns, rows=rows)


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/analytics/failures.csv", show=save_failures),
    PageRoute(path="/analytics/counts.csv", show=save_counts),
    PageRoute(path="/analytics/latency.csv", show=save_latency),
)
