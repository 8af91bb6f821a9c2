"""A store of message ids for topics in which publishers claim none."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from app.storage.runtime.published_ids import IdClaim


def no_claims(
    topic: str, ids: Mapping[str, str | None], *, ttl: timedelta
) -> AbstractAsyncContextManager[IdClaim]:
    """Fail the test: only a topic with deduplication may claim ids."""
    raise AssertionError(f"claimed without a filter: {topic} {ids} {ttl}")
