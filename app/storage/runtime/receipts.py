"""Receipts as PostgreSQL's notifications: each waiting process has a channel of its own."""

from collections.abc import Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.runtime.receipt import Receipt, payloads


def receipt_channel(waiter: str) -> str:
    """Where the process of that name hears of its receipts."""
    return f"angelia_receipts_{waiter}"


async def notify_receipts(session: AsyncSession, receipts: Mapping[str, Sequence[Receipt]]) -> None:
    """Tell each process its receipts at commit; one that has ended hears nothing."""
    for waiter, given in receipts.items():
        for payload in payloads(given):
            await session.execute(select(func.pg_notify(receipt_channel(waiter), payload)))
