"""Discards as frames, and as rows of the database."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from spark.schemas import DISCARDS

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_discard(**columns: Any) -> dict[str, Any]:  # noqa: ANN401 - any column
    """One row of DISCARDS; `body` stands for `body_hex` and `size`."""
    body: bytes = columns.pop("body", b'{"id": 1, "amount": 2}')
    row = {
        "subscription_id": "s-1",
        "topic": "shop.orders",
        "subscription": "billing",
        "message_id": "m-1",
        "discarded_at": NOON,
        "reason": "Message sending failed with status code:400",
        "status": 400,
        "attempts": 1,
        "size": len(body),
        "body_hex": body.hex(),
    }
    return row | columns


def frame(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> DataFrame:
    """The rows as a frame."""
    # A table of Arrow goes to Spark as it is; rows of Python would start processes to read them.
    table = pa.Table.from_pylist(list(rows), schema=to_arrow_schema(DISCARDS, timezone="UTC"))
    return spark.createDataFrame(table, DISCARDS)


def rows_of(result: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """The values of these columns, in the order of the frame."""
    return [tuple(row) for row in result.select(*columns).collect()]
