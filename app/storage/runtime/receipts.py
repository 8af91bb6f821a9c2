"""Sends receipts as PostgreSQL notifications. Each waiting process has a channel of its own."""

from collections.abc import Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.runtime.receipt import Receipt, payloads


def receipt_channel(waiter: str) -> str:
    """Return the channel on which the process with that name gets receipts."""
    return f"angelia_receipts_{waiter}"


async def notify_receipts(session: AsyncSession, receipts: Mapping[str, Sequence[Receipt]]) -> None:
    """Notify each process of its receipts, at the commit. A process that has ended is ignored."""
    for waiter, given in receipts.items():
        for payload in payloads(given):
            await session.execute(select(func.pg_notify(receipt_channel(waiter), payload)))
