"""The page with the results of a search. The search field is at the top of each page."""

from collections.abc import Sequence
from typing import Final

from app.console.view import PAGE_SIZE, PageRoute, PageView, ShownPage


async def show(view: PageView) -> ShownPage:
    """Show the topics and subscriptions whose name, owner or endpoint contains the text."""
    text = view.query.get("q", "").strip()
    found = {"results": [], "totalCount": 0}
    if text:
        found = await view.api.get("/search/query", {"q": text, "limit": PAGE_SIZE})
    return ShownPage(
        template="search.html",
        title="Search",
        section="topics",
        context={"text": text, "results": found["results"], "total": found["totalCount"]},
    )


ROUTES: Final[Sequence[PageRoute]] = (PageRoute(path="/search", show=show),)
