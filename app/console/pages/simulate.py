"""The page *Simulate*: tries other filters or another rate on messages that were published.

The parameter `id` of the URL names the shown simulation, so that a colleague can open the same
page.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console import words
from app.console.api import ApiRefusedError, Call, call_of, gathered, path_of
from app.console.charts import ChartLine, ChartPoint
from app.console.forms import (
    NO_PROBLEMS,
    Field,
    Problems,
    SentForm,
    as_filled,
    body_of,
    json_object,
    problems_in,
    whole,
    without_nulls,
)
from app.console.open_jobs import OPEN
from app.console.pages.jobs import cancellation
from app.console.view import PageRoute, PageView, Redirect, Result, ShownPage

# The API returns the results of at most so many minutes. If a simulation has more, the API leaves
# out the minutes with the fewest messages.
_MINUTES_MAX: Final = 1000
_MINUTE_S: Final = 60.0
FIELDS: Final[Sequence[Field]] = (
    Field(
        path="from",
        label="Messages from",
        hint="-30m, -6h, -2d, or a time such as 2026-01-31T12:00:00Z; a week at most.",
    ),
    Field(path="to", label="To", optional=True, hint="Now, if it is empty."),
    Field(
        path="filters",
        label="Filters to try",
        kind="area",
        read=json_object,
        optional=True,
        hint="All filters, as a JSON list. Empty: every message is wanted. Nothing is saved.",
    ),
    Field(
        path="rate",
        label="Rate to try",
        kind="number",
        unit="messages a second",
        read=whole,
        optional=True,
    ),
    Field(
        path="requestMillis",
        label="A request takes",
        kind="number",
        unit="ms",
        read=whole,
        optional=True,
        hint="How long the endpoint takes to answer. Empty: only the rate is a limit.",
    ),
    Field(
        path="inflightSize",
        label="In flight, at most",
        kind="number",
        read=whole,
        optional=True,
        hint="How many requests run at a time. It matters only with the time that a request takes.",
    ),
)


async def show(view: PageView) -> ShownPage:
    """Show the form with the current settings, or the simulation that the URL names."""
    settings = await view.api.get(view.subscription_path)
    policy = settings["subscriptionPolicy"]
    current = {"from": "-1d", "filters": settings["filters"], "rate": policy["rate"]}
    if not (name := view.query.get("id", "")):
        return await _page(view, current)
    found = await view.api.get(
        f"{view.subscription_path}/simulations{path_of(name)}", {"limit": _MINUTES_MAX}
    )
    tried = {each.path: found.get(each.path) for each in FIELDS}
    tried |= {name: f"{words.moment(found[name]):%Y-%m-%dT%H:%M:%SZ}" for name in ("from", "to")}
    if "requestMillis" not in found:
        tried["inflightSize"] = None
    return await _page(view, tried, found=found)


async def start(view: PageView) -> Result:
    """Request a simulation, and redirect to the page that shows it."""
    try:
        answer = await view.api.run(_simulation(view, view.form))
    except ApiRefusedError as error:
        problems = problems_in(error, [each.path for each in FIELDS])
        sent = body_of(FIELDS, view.form)
        return await _page(view, sent, problems=problems, status=error.status)
    return Redirect(
        to=view.link.subscription(view.topic, view.name, "simulate", id=answer.body["id"])
    )


def _simulation(view: PageView, form: SentForm) -> Call:
    sent = body_of(FIELDS, form)
    body = without_nulls(sent) | {"filters": sent["filters"] or []}
    return call_of("POST", f"{view.subscription_path}/simulate", body)


async def cancel(view: PageView) -> Result:
    """Cancel the simulation."""
    await view.api.run(cancellation(view.form["id"]))
    link = view.link.subscription(view.topic, view.name, "simulate", done="cancelled")
    return Redirect(to=link)


def minutes_chart(found: Mapping[str, Any]) -> Sequence[ChartLine]:
    """Return the chart lines of a simulation, in messages per second.

    There are four lines: the published messages, the messages that pass the current filters, the
    messages that pass the tried filters, and how many messages can be sent.
    """
    minutes = found["minutes"]
    if not minutes:
        return ()
    by_time = {words.moment(each["minute"]).timestamp(): each for each in minutes}
    # If the API has left out no minute, a minute that is missing in the result had no message.
    nothing = 0.0 if len(minutes) < _MINUTES_MAX else None
    start = words.moment(found["from"]).timestamp() // _MINUTE_S * _MINUTE_S
    end = words.moment(found["to"]).timestamp()
    times = [start + _MINUTE_S * number for number in range(int((end - start) // _MINUTE_S) + 1)]
    capacity = [ChartPoint(at, found["capacity"]) for at in (times[0], times[-1])]

    def line(name: str, kind: str, key: str) -> ChartLine:
        return ChartLine(
            name=name,
            kind=kind,
            points=[
                ChartPoint(at, by_time[at][key] / _MINUTE_S if at in by_time else nothing)
                for at in times
            ],
        )

    return (
        line("published", "limit", "read"),
        line("wanted now", "calm", "now"),
        line("would be wanted", "good", "matched"),
        ChartLine(name="can be sent", kind="warn", points=capacity),
    )


def waiting_chart(found: Mapping[str, Any]) -> Sequence[ChartLine]:
    """Return the line of how many messages would have waited for their delivery."""
    points = [
        ChartPoint(words.moment(each["minute"]).timestamp(), each["backlog"])
        for each in found["minutes"]
    ]
    return [ChartLine(name="messages", kind="warn", points=points)] if points else ()


async def _page(
    view: PageView,
    current: Mapping[str, Any],
    *,
    found: Mapping[str, Any] | None = None,
    problems: Problems = NO_PROBLEMS,
    status: int = 200,
) -> ShownPage:
    rights, job = await gathered(
        view.rights(view.topic, view.name),
        view.api.find(path_of("jobs", found["id"])) if found else _nothing(),
    )
    is_open = found is not None and found["state"] in OPEN
    forms = [_simulation(view, as_filled(FIELDS, current))]
    if found is not None and is_open:
        forms.append(cancellation(found["id"]))
    return ShownPage(
        template="simulate.html",
        title=f"Simulate {view.name}",
        section="topics",
        status=status,
        context={
            "topic": view.topic,
            "name": view.name,
            "fields": FIELDS,
            "current": current,
            "problems": problems,
            "found": found,
            "job": job,
            "is_open": is_open,
            "minutes": minutes_chart(found) if found else (),
            "waiting": waiting_chart(found) if found else (),
            "rights": rights,
        },
        live={"simulation": "simulate_result.html"} if found else {},
        forms=forms if rights.subscription else (),
    )


async def _nothing() -> None:
    return None


_PATH: Final = "/topics/{topic}/subscriptions/{name}/simulate"
ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path=_PATH, show=show, submit=start),
    PageRoute(path=f"{_PATH}/cancel", submit=cancel),
)
