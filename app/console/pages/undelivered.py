"""The pages *Undelivered*: show discarded messages that match filters, and send them again."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from app.console.api import ApiRefusedError, Call, call_of
from app.console.paging import next_after
from app.console.view import PageRoute, PageView, Redirect, Result, ShownPage

PAGE_SIZE: Final = 25
# How long one request sends messages again, in seconds. Then the page shows how many messages were
# sent.
SEND_S: Final = 3.0

FILTERS: Final = ("since", "until", "status", "reason", "key", "text")
# For each filter of the page, the name of the field in a redrive request to the API. The filter
# `status` is not here, because its field is a list.
_REDRIVE: Final[Mapping[str, str]] = {
    "since": "from",
    "until": "to",
    "reason": "reason",
    "key": "key",
    "text": "text",
}
_DISCARDING: Final = {"query": {"discarded": {"gt": 0}}}


def filters_of(query: Mapping[str, str]) -> dict[str, str]:
    """Return the filters of a URL that are not empty."""
    return {name: query[name].strip() for name in FILTERS if query.get(name, "").strip()}


def redrive_of(filters: Mapping[str, str], *, now: str) -> dict[str, Any]:
    """Return the body of a redrive request: which discards from before `now` are sent again.

    If a message is discarded again during the redrive, its new discard is later than `now`. So the
    redrive does not send it again.
    """
    body: dict[str, Any] = {"only": "discarded", "to": now}
    body |= {_REDRIVE[name]: text for name, text in filters.items() if name in _REDRIVE}
    if status := filters.get("status"):
        body["statusCodes"] = [int(status) if status.isdecimal() else status]
    return body


async def show(view: PageView) -> Result:
    """Show which subscriptions have discarded messages.

    If the reader has chosen a topic, redirect to this topic's page. If the reader has entered a
    message id, show the discards of this message, too.
    """
    topic, message = (view.query.get(name, "").strip() for name in ("topic", "message"))
    if topic:
        return Redirect(to=view.link("topics", topic, "undelivered"))
    found = None
    if message:
        found = await view.api.get("/undelivered", {"messageId": message, "limit": PAGE_SIZE})
    discarding = await view.api.send(
        "POST", "/query/subscriptions/metrics", _DISCARDING, query={"limit": PAGE_SIZE}
    )
    return ShownPage(
        template="undelivered.html",
        title="Undelivered",
        section="undelivered",
        context={"message": message, "found": found, "subscriptions": discarding.body},
    )


async def show_topic(view: PageView) -> ShownPage:
    """Show the undelivered messages of all subscriptions of a topic."""
    return await _list(view, view.topic_path)


async def show_subscription(view: PageView) -> ShownPage:
    """Show the undelivered messages of a subscription."""
    await view.api.get(view.subscription_path)
    return await _list(view, view.subscription_path, name=view.name)


async def send_chosen(view: PageView) -> Result:
    """Send the chosen messages again."""
    chosen = view.form.all("id")
    filters = filters_of(view.query)
    if chosen:
        await view.api.run(redrive_of_messages(view.subscription_path, chosen))
    done = "resent" if chosen else "none_chosen"
    return Redirect(
        to=view.link.subscription(view.topic, view.name, "undelivered", **filters, done=done)
    )


def redrive_of_messages(subscription: str, messages: Sequence[str]) -> Call:
    """Return the request that sends discarded messages again, also those that were sent before."""
    body = {"only": "discarded", "messageIds": messages, "again": True}
    return call_of("POST", f"{subscription}/retransmission", body)


async def _list(view: PageView, path: str, *, name: str = "") -> ShownPage:
    filters, after = filters_of(view.query), view.query.get("after")
    items: Sequence[Mapping[str, Any]] = ()
    problem, more = "", None
    try:
        answer = await view.api.call(
            "GET", f"{path}/undelivered", query={**filters, "limit": PAGE_SIZE, "after": after}
        )
        items, more = answer.body, next_after(answer)
    except ApiRefusedError as error:
        if not error.details:
            raise
        problem = error.message
    rights = await view.rights(view.topic, name or None)
    ids = [each["messageId"] for each in items[:1]]
    return ShownPage(
        template="undelivered_list.html",
        title=f"Undelivered of {name or view.topic}",
        section="undelivered",
        status=400 if problem else 200,
        context={
            "topic": view.topic,
            "name": name,
            "filters": filters,
            "values": {each: filters.get(each, "") for each in FILTERS},
            "problem": problem,
            "items": items,
            "is_first": after is None,
            "here": _here(view, name, filters),
            "next": _here(view, name, {**filters, "after": more or ""}),
            "more": more is not None,
            "all_of_it": view.link.subscription(view.topic, name, "undelivered", "again", **filters)
            if name
            else "",
            "rights": rights,
        },
        forms=[redrive_of_messages(path, ids)] if name and ids and rights.subscription else (),
    )


def _here(view: PageView, name: str, query: Mapping[str, str]) -> str:
    if name:
        return view.link.subscription(view.topic, name, "undelivered", **query)
    return view.link("topics", view.topic, "undelivered", **query)


async def show_again(view: PageView) -> ShownPage:
    """Show how many messages would be sent again."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return await _again(view, redrive_of(filters_of(view.query), now=now), sent=0)


async def send_again(view: PageView) -> Result:
    """Send the messages again that match the filters, for at most `SEND_S` seconds.

    If not all are sent by then, show how many were sent and how many remain.
    """
    now = view.form["to"] or datetime.now(UTC).isoformat(timespec="milliseconds")
    filters = filters_of(view.query)
    body = redrive_of(filters, now=now)
    sent = int(view.form["sent"]) if view.form["sent"].isdecimal() else 0
    until = time.monotonic() + SEND_S
    while True:
        answer = await view.api.run(_redrive(view, body))
        sent += answer.body["count"]
        if not answer.body["more"] or not answer.body["count"]:
            back = view.link.subscription(view.topic, view.name, "undelivered", done="resent")
            return Redirect(to=back)
        if time.monotonic() >= until:
            return await _again(view, body, sent=sent)


def _redrive(view: PageView, body: Mapping[str, Any]) -> Call:
    return call_of("POST", f"{view.subscription_path}/retransmission", body)


async def _again(view: PageView, body: Mapping[str, Any], *, sent: int) -> ShownPage:
    rights = await view.rights(view.topic, view.name)
    found = None
    if rights.subscription:
        found = (await view.api.run(_redrive(view, {**body, "dryRun": True}))).body
    filters = filters_of(view.query)
    return ShownPage(
        template="undelivered_again.html",
        title=f"Send again to {view.name}",
        section="undelivered",
        context={
            "topic": view.topic,
            "name": view.name,
            "filters": filters,
            "back": view.link.subscription(view.topic, view.name, "undelivered", **filters),
            "found": found,
            "to": body["to"],
            "sent": sent,
            "rights": rights,
        },
        forms=[_redrive(view, body)] if found and found["count"] else (),
    )


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/undelivered", show=show),
    PageRoute(path="/topics/{topic}/undelivered", show=show_topic),
    PageRoute(
        path="/topics/{topic}/subscriptions/{name}/undelivered",
        show=show_subscription,
        submit=send_chosen,
    ),
    PageRoute(
        path="/topics/{topic}/subscriptions/{name}/undelivered/again",
        show=show_again,
        submit=send_again,
    ),
)
