"""Receipts: the outcome of a message in a subscription, for a waiting publisher.

If a publisher waits, its record has the header `HEADER_RECEIPT`, as `{waiter} {number} {until}`:
the process that waits, the number of its request, and until when it waits (epoch ms). A receipt may
be lost. A lost receipt has no effect on the message.
"""

import json
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

# The maximum size of a notification: PostgreSQL allows less than 8,000 bytes.
PAYLOAD_BYTES_MAX: Final = 7_500
_REASON_LENGTH_MAX: Final = 500
_ADDRESS: Final = re.compile(rb"([0-9a-f]{32}) ([0-9]{1,15}) ([0-9]{1,15})")


class FinalOutcome(StrEnum):
    """The final outcome of a message in a subscription."""

    DELIVERED = "DELIVERED"
    DISCARDED = "DISCARDED"
    FILTERED = "FILTERED"


class ReceiptAddress(NamedTuple):
    """Who gets a receipt: the process `waiter`, for its request `number`.

    Nobody waits for the receipt after the time `until_ms` (epoch ms).
    """

    waiter: str
    number: int
    until_ms: int

    def header(self) -> bytes:
        """Return the address as the header of a record."""
        return f"{self.waiter} {self.number} {self.until_ms}".encode("ascii")


class Receipt(NamedTuple):
    """The outcome of the message that was published by the request `number`, in one subscription.

    For a discarded message, `status` is the last response status, and `reason` the reason.
    """

    number: int
    subscription_id: str
    outcome: FinalOutcome
    status: int | None = None
    reason: str = ""


def address_of(header: bytes) -> ReceiptAddress | None:
    """Return who gets the receipt, as named in the header; None for a header of another form."""
    found = _ADDRESS.fullmatch(header)
    if found is None:
        return None
    waiter, number, until_ms = found.groups()
    return ReceiptAddress(waiter.decode("ascii"), int(number), int(until_ms))


def payloads(receipts: Iterable[Receipt]) -> list[str]:
    """Return `receipts` as ASCII texts of at most PAYLOAD_BYTES_MAX bytes each."""
    texts: list[str] = []
    items: list[str] = []
    size = 0
    for receipt in receipts:
        item = json.dumps(receipt._replace(reason=receipt.reason[:_REASON_LENGTH_MAX]))
        if items and size + len(item) >= PAYLOAD_BYTES_MAX:
            texts.append(f"[{','.join(items)}]")
            items, size = [], 0
        items.append(item)
        size += len(item) + 1
    return [*texts, f"[{','.join(items)}]"] if items else texts


def receipts_in(payload: str) -> Sequence[Receipt]:
    """Return the receipts in a text; none for a text of another form."""
    try:
        return [_receipt(*parts) for parts in json.loads(payload)]
    except (ValueError, TypeError):
        return ()


def _receipt(number: Any, subscription_id: Any, outcome: Any, *why: Any) -> Receipt:  # noqa: ANN401 - JSON can have any type
    status, reason = why
    return Receipt(number, subscription_id, FinalOutcome(outcome), status, reason)
