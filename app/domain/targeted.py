"""Targeted records: records of a topic that belong to one of its subscriptions alone.

Such a record names the subscription, and the retransmission that it is part of, in a header
(`HEADER_TARGET`), as `{subscription id} {job id}`. All other subscriptions pass it over, and so
does everybody when that one is deleted.
"""

import re
from typing import Final, NamedTuple

_TARGET: Final = re.compile(rb"([0-9a-f]{32}) ([0-9a-f]{32})")


class RecordTarget(NamedTuple):
    """Whom a message is for, and the retransmission that it is part of: UUIDs in hex."""

    subscription_id: str
    job_id: str

    def header(self) -> bytes:
        """As the header of a record."""
        return f"{self.subscription_id} {self.job_id}".encode("ascii")


def target_of(header: bytes) -> RecordTarget | None:
    """Who is named in the header; None if it is not of ours, and the message is for everybody."""
    found = _TARGET.fullmatch(header)
    if found is None:
        return None
    subscription_id, job_id = found.groups()
    return RecordTarget(subscription_id.decode("ascii"), job_id.decode("ascii"))
