"""The page *Topics*: the list of topics with their rates."""

import re
from collections.abc import Sequence
from typing import Final

from app.console.paging import next_after
from app.console.view import PAGE_SIZE, PageRoute, PageView, ShownPage


async def show(view: PageView) -> ShownPage:
    """Show a page of the list of topics.

    If the reader has entered a text, only topics whose name contains the text are shown.
    """
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


ROUTES: Final[Sequence[PageRoute]] = (PageRoute(path="/topics", show=show),)
