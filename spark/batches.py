"""Makes Arrow batches of rows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

Batches = Iterator[pa.RecordBatch]


def batch_of(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows as one Arrow batch with the schema `schema`. The batch may be empty."""
    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    columns = [pa.array(each, type=field.type) for each, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
