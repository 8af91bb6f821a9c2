"""The page *Changes*, for admins: who changed what and when, from the audit."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.console.diffs import differences
from app.console.paging import next_after
from app.console.view import PAGE_SIZE, PageRoute, PageView, ShownPage

FILTERS: Final[Mapping[str, str]] = {
    "kind": "Kind, such as subscription",
    "name": "Name",
    "actor": "Who",
    "action": "Action, such as UPDATED",
    "since": "Since, such as 2026-01-31",
    "until": "Before",
}


async def show(view: PageView) -> ShownPage:
    """Show a page of the changes that match the reader's filters. The newest change is first."""
    given = {name: view.query.get(name, "").strip() for name in FILTERS}
    after = view.query.get("after")
    query = {name: text or None for name, text in given.items()}
    answer = await view.api.call(
        "GET", "/audit", query={**query, "limit": PAGE_SIZE, "after": after}
    )
    return ShownPage(
        template="audit.html",
        title="Changes",
        section="operations",
        context={
            "events": [{**each, "changes": _changes(each)} for each in answer.body],
            "filters": FILTERS,
            "given": given,
            "after": next_after(answer),
            "is_first": after is None,
        },
    )


def _changes(event: Mapping[str, Any]) -> Sequence[object]:
    return differences(event.get("before") or {}, event.get("after") or {})


ROUTES: Final[Sequence[PageRoute]] = (PageRoute(path="/audit", show=show),)
