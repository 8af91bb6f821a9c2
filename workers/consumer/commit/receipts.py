"""Receipts for waiting publishers. A receipt reports that a message is finished.

Receipts are posted soon, and delivery does not wait until they are posted.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.delivery import Discarded
from app.domain.errors import UnavailableError
from app.domain.runtime.receipt import FinalOutcome, Receipt, address_of

# The maximum number of waiting receipts. If there are more, the oldest are dropped, because their
# publishers will soon stop waiting anyway.
WAITING_MAX: Final = 10_000
RETRY_PAUSE: Final = timedelta(seconds=1)
# The largest expected difference between the clocks of this process and the publisher's API
# process.
_CLOCK_SKEW_MS: Final = 60_000

_log = structlog.get_logger()


class ReceiptBoard(Protocol):
    """The place where the processes of waiting publishers look for receipts."""

    async def post(self, receipts: Mapping[str, Sequence[Receipt]]) -> None:
        """Post receipts, by the names of the processes that wait for them.

        Raises:
            UnavailableError: The board cannot be reached.
        """


class Receipts:
    """Collects receipts, and posts them in groups, one group after the other."""

    def __init__(self, board: ReceiptBoard) -> None:
        self._board = board
        self._waiting: deque[tuple[str, Receipt]] = deque(maxlen=WAITING_MAX)
        self._added = asyncio.Event()

    def add(
        self,
        header: bytes,
        subscription_id: str,
        outcome: FinalOutcome,
        *,
        why: Discarded | None = None,
    ) -> None:
        """Add a receipt for the publisher that the message's header names, if it may still wait."""
        address = address_of(header)
        if address is None or address.until_ms + _CLOCK_SKEW_MS < time.time_ns() // 1_000_000:
            return
        receipt = Receipt(address.number, subscription_id, outcome)
        if why is not None:
            receipt = receipt._replace(status=why.status, reason=why.reason)
        self._waiting.append((address.waiter, receipt))
        self._added.set()

    async def run(self) -> None:
        """Post added receipts until cancelled."""
        while True:
            await self._added.wait()
            if not await self.flush():
                await asyncio.sleep(RETRY_PAUSE.total_seconds())

    async def flush(self) -> bool:
        """Post all waiting receipts. Return False if posting has failed."""
        self._added.clear()
        posted = list(self._waiting)
        self._waiting.clear()
        by_waiter: dict[str, list[Receipt]] = defaultdict(list)
        for waiter, receipt in posted:
            by_waiter[waiter].append(receipt)
        try:
            if by_waiter:
                await self._board.post(by_waiter)
        except UnavailableError as exc:
            _log.warning("receipts_not_posted", receipts=len(posted), error=exc.message)
            self._keep(posted)
            return False
        return True

    def _keep(self, unposted: Sequence[tuple[str, Receipt]]) -> None:
        for each in reversed(unposted):
            if len(self._waiting) < WAITING_MAX:
                self._waiting.appendleft(each)
        self._added.set()
