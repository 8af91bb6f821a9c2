"""Lists of names, and of what is listed the newest first, page by page."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from app.domain.errors import ValidationFailedError
from app.domain.paging import NamePage

Age = tuple[InstrumentedAttribute[datetime], InstrumentedAttribute[str]]
"""What rows are listed by, the newest first: a time, and the id among those of one time."""


async def older_than(session: AsyncSession, age: Age, after: str) -> ColumnElement[bool]:
    """What holds of rows that are older than the one with the id `after`.

    ValidationFailedError when there is none: the page before is from elsewhere, or long ago.
    """
    at, row_id = age
    known = None
    if "\0" not in after:
        known = (await session.execute(select(at, row_id).where(row_id == after))).first()
    if known is None:
        raise ValidationFailedError.of("after", "must be from the page before")
    return tuple_(at, row_id) < tuple_(*known)


def paged(query: Select[Any], name: InstrumentedAttribute[str], page: NamePage) -> Select[Any]:
    """The page of what `query` finds, in the order of the column `name`."""
    if page.after is not None:
        # No name has a zero character, and the database takes none in a question.
        query = query.where(name > page.after.replace("\0", ""))
    return query.order_by(name).limit(page.limit)
