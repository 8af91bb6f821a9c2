"""The page that tries filters on a message. It uses the same code for filters as the workers."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import ApiRefusedError, Call, call_of, path_of
from app.console.forms import (
    NO_PROBLEMS,
    Field,
    Problems,
    SentForm,
    as_filled,
    json_object,
    problems_in,
)
from app.console.view import PageRoute, PageView, Result, ShownPage

_MESSAGE: Final = "message"
FIELDS: Final[Sequence[Field]] = (
    Field(
        path="filters",
        label="Filters",
        kind="area",
        read=json_object,
        hint="A JSON list. They are only tried here: nothing is saved.",
    ),
    Field(path=_MESSAGE, label="Message", kind="area", hint="Its body, as it was published."),
    Field(
        path="headers",
        label="Headers",
        kind="area",
        read=json_object,
        optional=True,
        hint='Its propagated headers, as a JSON object: {"X-Tenant": "a"}.',
    ),
    Field(path="key", label="Partition key", optional=True),
)


async def show(view: PageView) -> ShownPage:
    """Show the subscription's filters, and a message to try them on.

    The message is the recent message that the reader has chosen, or the newest one. It is empty if
    there are no recent messages.
    """
    settings = await view.api.get(view.subscription_path)
    recent = await _recent(view)
    taken = view.query.get("take", "0")
    message = recent[int(taken)]["content"] if taken in map(str, range(len(recent))) else ""
    current = {"filters": settings["filters"] or [_EXAMPLE], _MESSAGE: message}
    return await _page(view, current, recent=recent)


async def try_them(view: PageView) -> Result:
    """Try the filters of the form on the message of the form, and show the result."""
    given = {each.path: each.value(view.form) for each in FIELDS}
    recent = await _recent(view)
    try:
        answer = await view.api.run(_trial(view, view.form))
    except ApiRefusedError as error:
        problems = problems_in(error, [each.path for each in FIELDS])
        page = await _page(view, given, recent=recent, problems=problems, status=error.status)
    else:
        page = await _page(view, given, recent=recent, verdict=answer.body)
    return page


def _trial(view: PageView, form: SentForm) -> Call:
    given = {each.path: each.value(form) for each in FIELDS}
    body = {name: value for name, value in given.items() if value is not None}
    body[_MESSAGE] = base64.b64encode(str(given[_MESSAGE]).encode()).decode("ascii")
    return call_of("POST", path_of("filters", view.topic), body)


async def _recent(view: PageView) -> Sequence[Mapping[str, Any]]:
    """Return the newest messages of the topic whose bodies are complete.

    If the reader may not see messages, the result is empty.
    """
    found = await view.api.find(f"{view.topic_path}/preview")
    return [each for each in found or () if not each["truncated"]]


async def _page(
    view: PageView,
    current: Mapping[str, Any],
    *,
    recent: Sequence[Mapping[str, Any]],
    problems: Problems = NO_PROBLEMS,
    verdict: Mapping[str, Any] | None = None,
    status: int = 200,
) -> ShownPage:
    return ShownPage(
        template="filters.html",
        title=f"Filters of {view.name}",
        section="topics",
        status=status,
        context={
            "topic": view.topic,
            "name": view.name,
            "fields": FIELDS,
            "current": current,
            "recent": recent,
            "problems": problems,
            "verdict": verdict,
            "filters": json.dumps(current["filters"]),
        },
        forms=[_trial(view, as_filled(FIELDS, current))],
    )


_EXAMPLE: Final = {"type": "jsonpath", "path": "$.country", "matcher": "PL|DE"}
ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/topics/{topic}/subscriptions/{name}/filters", show=show, submit=try_them),
)
