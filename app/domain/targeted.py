"""Targeted records: records of a topic that are for only one of its subscriptions.

Such a record names the subscription and its retransmission in a header (`HEADER_TARGET`), as
`{subscription id} {job id}`. All other subscriptions skip the record. If the named subscription was
deleted, all subscriptions skip the record.
"""

import re
from typing import Final, NamedTuple

_TARGET: Final = re.compile(rb"([0-9a-f]{32}) ([0-9a-f]{32})")


class RecordTarget(NamedTuple):
    """The subscription for which a message is, and its retransmission: UUIDs in hex."""

    subscription_id: str
    job_id: str

    def header(self) -> bytes:
        """Return the target as the header of a record."""
        return f"{self.subscription_id} {self.job_id}".encode("ascii")


def target_of(header: bytes) -> RecordTarget | None:
    """Return the target in the header.

    None for a header of another form. Then the message is for all subscriptions.
    """
    found = _TARGET.fullmatch(header)
    if found is None:
        return None
    subscription_id, job_id = found.groups()
    return RecordTarget(subscription_id.decode("ascii"), job_id.decode("ascii"))
