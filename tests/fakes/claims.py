"""Ids that publishers claim, where nobody may claim any."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from app.storage.runtime.published_ids import IdClaim


def no_claims(
    topic: str, ids: Mapping[str, str | None], *, ttl: timedelta
) -> AbstractAsyncContextManager[IdClaim]:
    """Fail: the topic has no filter."""
    raise AssertionError(f"claimed without a filter: {topic} {ids} {ttl}")
