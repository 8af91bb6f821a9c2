"""The pages *Topics*: the list with rates, and the form for a new topic."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import ApiRefusedError
from app.console.forms import (
    NO_PROBLEMS,
    Field,
    Problems,
    body_of,
    problems_in,
    whole,
    without_nulls,
)
from app.console.paging import next_after
from app.console.view import PAGE_SIZE, PageRoute, PageView, Redirect, Result, ShownPage

FIELDS: Final[Sequence[Field]] = (
    Field(
        path="name",
        label="Name",
        required=True,
        hint="group.topic, such as shop.orders. The group is created with its first topic.",
    ),
    Field(path="description", label="Description", kind="area", hint="What its messages say."),
    Field(path="owner.id", label="Owner", optional=True, hint="The team that people ask about it."),
    Field(
        path="retentionTime.duration",
        label="Kept for",
        kind="number",
        unit="days",
        read=whole,
        optional=True,
        hint="How long the log has its messages. It bounds how far back a replay reaches.",
    ),
    Field(
        path="partitions",
        label="Partitions",
        kind="number",
        read=whole,
        optional=True,
        hint="How many workers can deliver it at the same time. They never become fewer.",
    ),
    Field(
        path="maxMessageSize",
        label="Largest message",
        kind="number",
        unit="bytes",
        read=whole,
        optional=True,
    ),
    Field(
        path="ack",
        label="Acknowledged by",
        kind="choice",
        choices=("ALL", "LEADER"),
        hint="LEADER is faster, and what only the leader has is lost with it.",
    ),
    Field(
        path="trackingEnabled",
        label="Trace each message",
        kind="check",
        hint="So that you can see later what happened to a message.",
    ),
    Field(
        path="schema",
        label="JSON Schema",
        kind="area",
        optional=True,
        hint="Messages that do not fit are refused. Leave it empty to take any JSON.",
    ),
)
_PATHS: Final = tuple(each.path for each in FIELDS)
_NEW: Final[Mapping[str, Any]] = {
    "retentionTime": {"duration": 1},
    "partitions": 8,
    "maxMessageSize": 51_200,
    "ack": "ALL",
    "trackingEnabled": True,
}


async def show(view: PageView) -> ShownPage:
    """Show a page of topics. If the reader gave a text, their names contain it."""
    text, after = view.query.get("q", "").strip(), view.query.get("after")
    query = {"name": {"like": f".*{re.escape(text)}.*"}} if text else {}
    answer = await view.api.call(
        "POST",
        "/query/topics/metrics",
        query={"limit": PAGE_SIZE, "after": after},
        body={"query": query},
    )
    return ShownPage(
        template="topics.html",
        title="Topics",
        section="topics",
        context={
            "text": text,
            "topics": answer.body,
            "after": next_after(answer),
            "is_first": after is None,
            "may_create": (await view.rights()).create,
        },
        live={"topics": "topics_table.html"},
    )


async def show_new(view: PageView) -> ShownPage:
    """Show the form for a new topic."""
    name = view.query.get("name", "")
    return await _form(view, {**_NEW, "name": name}, NO_PROBLEMS)


async def create(view: PageView) -> Result:
    """Create a topic, and redirect to its page."""
    body = without_nulls(body_of(FIELDS, view.form))
    try:
        await view.api.send("POST", "/topics", body)
    except ApiRefusedError as error:
        return await _form(view, body, problems_in(error, _PATHS), status=error.status)
    return Redirect(to=view.link.topic(view.form["name"].strip(), done="created"))


async def _form(
    view: PageView, current: Mapping[str, Any], problems: Problems, *, status: int = 200
) -> ShownPage:
    return ShownPage(
        template="topic_new.html",
        title="New topic",
        section="topics",
        status=status,
        context={
            "fields": FIELDS,
            "current": current,
            "problems": problems,
            "may_create": (await view.rights()).create,
        },
    )


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/topics", show=show),
    PageRoute(path="/new-topic", show=show_new, submit=create),
)
