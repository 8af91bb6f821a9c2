"""The page *Messages*: finds messages in the log, and the topics of a message id."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.api import ApiRefusedError, path_of
from app.console.paging import next_query
from app.console.view import PageRoute, PageView, ShownPage

PAGE_SIZE: Final = 25
CRITERIA: Final = ("messageId", "key", "text", "path", "value")
SEARCH: Final = ("topic", *CRITERIA, "since", "until")


async def show(view: PageView) -> ShownPage:
    """Show the search form. If the URL has a search, show also the messages that match it."""
    values = {name: view.query.get(name, "").strip() for name in SEARCH}
    given = {name: text for name, text in values.items() if text}
    context: dict[str, Any] = {
        "values": values,
        "problem": "",
        "found": None,
        "topics": None,
        "next": "",
        "is_first": "after" not in view.query,
    }
    status = 200
    try:
        if "topic" in given and not given.keys().isdisjoint(CRITERIA):
            context |= await _searched(view, given)
        elif "messageId" in given:
            context["topics"] = await _topics(view, given["messageId"])
        elif given.keys() - {"since", "until", "topic"}:
            context["problem"] = "Give a topic, and what to look for in it; or only a message id."
            status = 400
    except ApiRefusedError as error:
        if not error.details:
            raise
        context["problem"], status = error.message, error.status
    return ShownPage(
        template="messages.html",
        title="Messages",
        section="messages",
        context=context,
        status=status,
    )


async def _searched(view: PageView, given: Mapping[str, str]) -> Mapping[str, Any]:
    query = {name: text for name, text in given.items() if name != "topic"}
    path = path_of("topics", given["topic"], "messages")
    after = view.query.get("after")
    answer = await view.api.call("GET", path, query={**query, "limit": PAGE_SIZE, "after": after})
    more = next_query(answer)
    if more is None:
        return {"found": answer.body}
    # The link to the next page of results has absolute times. A relative time such as -1h would
    # mean a later time when the reader opens the next page.
    following = {name: more[name] for name in ("since", "until", "after")}
    return {"found": answer.body, "next": view.link("messages", **{**given, **following})}


async def _topics(view: PageView, message: str) -> Sequence[str]:
    """Return the topics with a trace entry or a discard of the message id `message`."""
    entries = await view.api.get(f"{path_of('events', message)}/trace")
    discards = await view.api.get("/undelivered", {"messageId": message})
    return sorted({each["topicName"] for each in (*entries, *discards)})


ROUTES: Final[Sequence[PageRoute]] = (PageRoute(path="/messages", show=show),)
