"""The pages *Analytics*: the results of Spark's analyses, as tables and charts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.api.media import LIMIT_MAX
from app.console import words
from app.console.api import gathered, path_of
from app.console.charts import ChartLine, ChartPoint
from app.console.open_jobs import open_jobs
from app.console.view import PAGE_SIZE, PageRoute, PageView, ShownPage, first_of

# The kind of Spark job whose results each page shows. The keys are the last parts of the pages'
# paths.
KINDS: Final[Mapping[str, str]] = {
    "": "UNDELIVERED_ANALYTICS",
    "counts": "UNDELIVERED_ANALYTICS",
    "latency": "LATENCY_ANALYTICS",
}
_HOUR_S: Final = 3600
# What discards can be counted by: the values of the parameter `by`, each with its title.
GROUPS: Final[Mapping[str, str]] = {
    "reason,status": "reason and answer",
    "topic": "topic",
    "topic,subscription": "subscription",
    "status": "answer",
    "hour": "hour",
}
PATTERNS: Final[Mapping[str, str]] = {
    "ONE_SHAPE": "Messages of one shape fail at several subscriptions: look at the publisher.",
    "ONE_SUBSCRIPTION": (
        "Messages of several shapes fail at one subscription: look at its endpoint."
    ),
    "MIXED": "Several shapes fail at several subscriptions.",
}
# The steps of a message on its way to the subscriber. The page shows the time of each step. The
# values are a style class and a description.
PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "queued": ("calm", "in the log, until a worker took it"),
    "waited": ("warn", "in Angelia: rate, order, backoff"),
    "connect": ("limit", "opening connections"),
    "subscriber": ("good", "the endpoint"),
}


async def show_failures(view: PageView) -> ShownPage:
    """Show discarded messages in groups of similar failures, the largest group first."""
    found = await found_analysis(view, "failures")
    clusters = found["clusters"] if found else ()
    return await _page(
        view,
        "",
        found=found,
        more={
            "clusters": clusters,
            "largest": max((each["messages"] for each in clusters), default=0),
            "patterns": PATTERNS,
        },
    )


async def show_counts(view: PageView) -> ShownPage:
    """Show how many messages were discarded, in each hour and for each value of a field.

    The reader chooses the field, for example the topic or the reason.
    """
    by = first_of(view.query, "by", tuple(GROUPS))
    found, hours = await gathered(
        found_analysis(view, "undelivered", by=by),
        found_analysis(view, "undelivered", by="hour", limit=LIMIT_MAX),
    )
    counts = found["counts"] if found else ()
    return await _page(
        view,
        "counts",
        found=found,
        more={
            "by": by,
            "groups": GROUPS,
            "names": by.split(","),
            "counts": counts,
            "largest": max((each["messages"] for each in counts), default=0),
            "hours": hourly(hours) if hours else (),
        },
    )


async def show_latency(view: PageView) -> ShownPage:
    """Show how long messages took to each subscription, in total and in each step."""
    found = await found_analysis(view, "latency")
    rows = found["subscriptions"] if found else ()
    timed = [each for each in rows if each.get("total")]
    return await _page(
        view,
        "latency",
        found=found,
        more={
            "rows": [{**each, "parts": _parts_of_time(each)} for each in rows],
            "slowest_ms": max((each["total"]["mean"] for each in timed), default=0.0),
            "parts_of_time": PARTS,
            "slo": found["scope"].get("sloSeconds") if found else None,
        },
    )


def _parts_of_time(row: Mapping[str, Any]) -> Sequence[tuple[str, str, float]]:
    """Return each step of the time that messages took.

    The result has the style class, the title, and the mean milliseconds of each step.
    """
    means = {name: row[name]["mean"] for name in PARTS if row.get(name)}
    return [
        (PARTS[name][0], f"{PARTS[name][1]}: {words.span(mean / 1000)}", mean)
        for name, mean in means.items()
    ]


def hourly(analysis: Mapping[str, Any]) -> Sequence[ChartLine]:
    """Return the line of discarded messages per hour. An hour without discards is zero."""
    counts = {
        words.moment(each["hour"]).timestamp(): each["messages"] for each in analysis["counts"]
    }
    if not counts:
        return ()
    start, end = min(counts), max(counts)
    points = []
    for hour in range(int((end - start) // _HOUR_S) + 2):
        at = start + hour * _HOUR_S
        points.append(ChartPoint(at, float(counts.get(at, 0))))
    return [ChartLine(name="messages", kind="bad", points=points)]


async def found_analysis(view: PageView, what: str, **query: str | int) -> Mapping[str, Any] | None:
    """Return the analysis that the URL of the page names; None if there is none yet.

    The parameters in `query` are added to the API request, and replace parameters of the page's
    URL.
    """
    wanted = {**_chosen(view), "limit": PAGE_SIZE, **query}
    if what == "failures":
        wanted.pop("subscription", None)
    found: Mapping[str, Any] | None = await view.api.find(path_of("analytics", what), wanted)
    return found


def _chosen(view: PageView) -> dict[str, str]:
    names = ("topic", "subscription", "job")
    return {name: view.query[name].strip() for name in names if view.query.get(name, "").strip()}


async def _job(view: PageView, found: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    job: Mapping[str, Any] | None = None
    if found is not None:
        job = await view.api.find(path_of("jobs", found["jobId"]))
    return job


async def _under_way(view: PageView, kind: str) -> Sequence[Mapping[str, Any]]:
    return [job for job in await open_jobs(view.api, PAGE_SIZE) if job["kind"] == kind]


async def _page(
    view: PageView, path: str, *, found: Mapping[str, Any] | None, more: Mapping[str, Any]
) -> ShownPage:
    chosen, kind = _chosen(view), KINDS[path]
    jobs, job = await gathered(_under_way(view, kind), _job(view, found))
    name = path or "failures"
    return ShownPage(
        template=f"analytics_{name}.html",
        title="Analytics",
        section="analytics",
        context={
            "tab": path,
            "kind": kind,
            "jobs": jobs,
            "job": job,
            "found": found,
            "chosen": {each: chosen.get(each, "") for each in ("topic", "subscription", "job")},
            "may_request": view.writable and view.caller.grants.owns_some,
            "rows_max": LIMIT_MAX,
            **more,
        },
        live={"under-way": "analytics_jobs.html"},
    )


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/analytics", show=show_failures),
    PageRoute(path="/analytics/counts", show=show_counts),
    PageRoute(path="/analytics/latency", show=show_latency),
)
