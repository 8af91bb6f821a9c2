"""Columns that several tables of the baseline have in common."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.sql.functions import FunctionElement


def time_of_transaction(name: str) -> sa.Column[Any]:
    """Return a column for the time when the writer's transaction began.

    The writer may set another time.
    """
    return _time(name, sa.func.now())


def time_of_writing(name: str) -> sa.Column[Any]:
    """Return a column for the time when the row was written.

    The writer may set another time.
    """
    return _time(name, sa.func.clock_timestamp())


def gone_with(target: str, *, table: str, column: str) -> sa.ForeignKeyConstraint:
    """Return a foreign key of `table`.

    The rows of `table` are deleted with the row at `target` (table and column).
    """
    name = f"fk_{table}_{column}_{target.partition('.')[0]}"
    return sa.ForeignKeyConstraint([column], [target], name=name, ondelete="CASCADE")


def create_result(table: str, *columns: sa.Column[Any], of: str) -> None:
    """Create a table for results of Spark jobs.

    It has the rows that each claim (`attempt`) of a job wrote, by part. If a part is written twice,
    the second one replaces the first. The rows are deleted with the row of their job in the table
    `of`.
    """
    op.create_table(
        table,
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        *columns,
        gone_with(of, table=table, column="job_id"),
        sa.PrimaryKeyConstraint("job_id", "attempt", "part", "row", name=f"pk_{table}"),
    )


def _time(name: str, default: FunctionElement[Any]) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), server_default=default, nullable=False)
