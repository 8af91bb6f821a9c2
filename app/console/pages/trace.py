"""The page of a message's trace: its publication, and its deliveries.

Parts of the page change while it is open.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import Call, path_of
from app.console.pages.undelivered import redrive_of_messages
from app.console.view import PageRoute, PageView, Redirect, ShownPage


async def show(view: PageView) -> ShownPage:
    """Show the trace of a message: its publication, and all attempts to deliver it."""
    message = view.params["message"]
    answer = await view.api.call("GET", f"{view.topic_path}{path_of('events', message)}/trace")
    entries: Sequence[Mapping[str, Any]] = answer.body or []
    discards = await view.api.find(f"{view.topic_path}/undelivered", {"messageId": message}) or ()
    names = {each["subscription"] for each in discards}
    redrivable = {each for each in names if (await view.rights(view.topic, each)).subscription}
    return ShownPage(
        template="trace.html",
        title=f"Message {message}",
        section="topics",
        context={
            "topic": view.topic,
            "message": message,
            "entries": entries,
            "start": entries[0]["timestamp"] if entries else None,
            "discards": discards,
            "redrivable": redrivable,
            "why_none": answer.headers.get("angelia-trace", ""),
        },
        live={"trace": "trace_entries.html"},
        forms=[_redrive(view, each) for each in sorted(redrivable)[:1]],
    )


async def send_again(view: PageView) -> Redirect:
    """Send the message again to the subscription that the form names, which has discarded it."""
    message = view.params["message"]
    await view.api.run(_redrive(view, view.form["subscription"]))
    return Redirect(to=view.link("topics", view.topic, "messages", message, done="resent"))


def _redrive(view: PageView, name: str) -> Call:
    path = path_of("topics", view.topic, "subscriptions", name)
    return redrive_of_messages(path, [view.params["message"]])


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/topics/{topic}/messages/{message:path}", show=show, submit=send_again),
)
