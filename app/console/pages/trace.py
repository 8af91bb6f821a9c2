"""*Trace*: what happened to one message, in the publication and in each subscription; live."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import path_of
from app.console.view import PageRoute, PageView, ShownPage


async def show(view: PageView) -> ShownPage:
    """Show the trace of a message of a topic."""
    message = view.params["message"]
    answer = await view.api.call("GET", f"{view.topic_path}{path_of('events', message)}/trace")
    entries: Sequence[Mapping[str, Any]] = answer.body or []
    return ShownPage(
        template="trace.html",
        title=f"Message {message}",
        section="topics",
        context={
            "topic": view.topic,
            "message": message,
            "entries": entries,
            "start": entries[0]["timestamp"] if entries else None,
            "why_none": answer.headers.get("angelia-trace", ""),
        },
        live={"trace": "trace_entries.html"},
    )


ROUTES: Final[Sequence[PageRoute]] = (
    PageRoute(path="/topics/{topic}/messages/{message:path}", show=show),
)
