"""What several tables of the baseline have in common."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.sql.functions import FunctionElement


def time_of_transaction(name: str) -> sa.Column[Any]:
    """When the transaction of the writer began, if it says nothing else."""
    return _time(name, sa.func.now())


def time_of_writing(name: str) -> sa.Column[Any]:
    """What the clock said when the row was written, if its writer says nothing else."""
    return _time(name, sa.func.clock_timestamp())


def gone_with(target: str, *, table: str, column: str) -> sa.ForeignKeyConstraint:
    """A foreign key of `table`: its row goes with the row at `target`, a table and its column."""
    name = f"fk_{table}_{column}_{target.partition('.')[0]}"
    return sa.ForeignKeyConstraint([column], [target], name=name, ondelete="CASCADE")


def create_result(table: str, *columns: sa.Column[Any], of: str) -> None:
    """Create a table for what takings (`attempt`) of Spark jobs wrote: a row of a part of each.

    A part that is written twice replaces. The rows go with that of their job in `of`.
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
