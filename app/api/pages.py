"""Lists in pages: `?limit=&after=`, and a `Link` to the next page."""

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from app.api.media import LIMIT_MAX, AnswerNotes, answer, limit_of
from app.domain.errors import ValidationFailedError
from app.domain.paging import KeyPage, NamePage


def next_link(request: Request, after: str, **fixed: str) -> dict[str, str]:
    """Return the `Link` header for the page after the item `after`.

    The link has the query parameters of the request. The values in `fixed` replace some of them.
    """
    query = {**request.query_params, **fixed, "after": after}
    return {"Link": f'<{request.url.path}?{urlencode(query)}>; rel="next"'}


async def _page(
    limit: Annotated[
        str | None, Query(description=f"1 to {LIMIT_MAX} names on a page; without it, all")
    ] = None,
    after: Annotated[str | None, Query(description="names after this one")] = None,
) -> NamePage:
    return NamePage(limit=None if limit is None else limit_of(limit), after=after)


async def _key_page(
    limit: Annotated[
        str | None, Query(description=f"1 to {LIMIT_MAX} of them on a page; without it, all")
    ] = None,
    after: Annotated[str | None, Query(description="from the `Link` of the page before")] = None,
) -> KeyPage:
    key = None if after is None else tuple(after.replace("\0", "").split("/"))
    return KeyPage(limit=None if limit is None else limit_of(limit), after=key)


KeyPageOf = Annotated[KeyPage, Depends(_key_page)]


def keyed(page: KeyPage, width: int) -> KeyPage:
    """Return the page, after a check of its key: the key of the last item on the previous page.

    The key must have `width` parts, for example 2 for a topic and a name.

    Raises:
        ValidationFailedError: The key has another number of parts.
    """
    if page.after is not None and len(page.after) != width:
        raise ValidationFailedError.of("after", "must be from the page before")
    return page


TrackedOnly = Annotated[bool, Query(description="only those that are traced (`trackingMode`)")]
NamePageOf = Annotated[NamePage, Depends(_page)]


def names_answer(request: Request, names: Sequence[str], page: NamePage) -> Response:
    """Return a list of names. If the page is full, the response has a link to the next page."""
    full = page.limit is not None and len(names) == page.limit
    link = next_link(request, names[-1]) if full else {}
    return answer(list(names), notes=AnswerNotes(extra=link))
