"""Lists of names, page by page."""

from typing import Any

from sqlalchemy import Select
from sqlalchemy.orm import InstrumentedAttribute

from app.domain.paging import NamePage


def paged(query: Select[Any], name: InstrumentedAttribute[str], page: NamePage) -> Select[Any]:
    """The page of what `query` finds, in the order of the column `name`."""
    if page.after is not None:
        # No name has a zero character, and the database takes none in a question.
        query = query.where(name > page.after.replace("\0", ""))
    return query.order_by(name).limit(page.limit)
