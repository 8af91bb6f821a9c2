import pytest
from sqlalchemy import text
from sqlalchemy.exc import DataError

from app.storage.database import Database


async def test_what_is_said_of_a_statement_that_failed_has_none_of_its_values(
    database: Database,
) -> None:
    with pytest.raises(DataError) as caught:
        async with database.transaction() as session:
            await session.execute(text("SELECT 1 / 0, :body"), {"body": "hush"})
    assert "hush" not in str(caught.value)
