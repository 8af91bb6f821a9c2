"""Sends pings and their results as PostgreSQL notifications."""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.runtime.ping import Ping, Pong
from app.storage.notices import PINGS


def pong_channel(waiter: str) -> str:
    """Return the channel on which the process with that name receives ping results."""
    return f"angelia_pongs_{waiter}"


async def notify_ping(session: AsyncSession, ping: Ping) -> None:
    """Notify all workers of a ping. The worker that the ping names sends the test message.

    The notification is sent when the transaction commits.
    """
    await session.execute(select(func.pg_notify(PINGS, ping.text())))


async def notify_pong(session: AsyncSession, ping: Ping, pong: Pong) -> None:
    """Notify the process that requested the ping, if it still runs."""
    channel = pong_channel(ping.waiter)
    await session.execute(select(func.pg_notify(channel, pong.text(ping.number))))
