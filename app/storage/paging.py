"""Pages of lists of names, and of lists with the newest first."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from app.domain.errors import ValidationFailedError
from app.domain.paging import NamePage

Age = tuple[InstrumentedAttribute[datetime], InstrumentedAttribute[str]]
"""The columns by which rows are ordered, the newest first: a time, and the id for equal times."""


async def older_than(session: AsyncSession, age: Age, after: str) -> ColumnElement[bool]:
    """Return the SQL condition that a row is older than the row with the id `after`.

    Raises:
        ValidationFailedError: No row has the id `after`.
    """
    at, row_id = age
    known = None
    if "\0" not in after:
        known = (await session.execute(select(at, row_id).where(row_id == after))).first()
    if known is None:
        raise ValidationFailedError.of("after", "must be from the page before")
    return tuple_(at, row_id) < tuple_(*known)


def paged(query: Select[Any], name: InstrumentedAttribute[str], page: NamePage) -> Select[Any]:
    """Return `query`, limited to the rows of `page`, in the order of the column `name`."""
    if page.after is not None:
        # Remove zero characters, because the database refuses them in a query. No stored name has
        # one.
        query = query.where(name > page.after.replace("\0", ""))
    return query.order_by(name).limit(page.limit)
