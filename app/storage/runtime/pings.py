"""Pings and pongs as PostgreSQL's notifications."""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.runtime.ping import Ping, Pong
from app.storage.notices import PINGS


def pong_channel(waiter: str) -> str:
    """Where the process of that name hears what came of its pings."""
    return f"angelia_pongs_{waiter}"


async def notify_ping(session: AsyncSession, ping: Ping) -> None:
    """Tell all workers at commit; the one that is meant sends it."""
    await session.execute(select(func.pg_notify(PINGS, ping.text())))


async def notify_pong(session: AsyncSession, ping: Ping, pong: Pong) -> None:
    """Tell who asked; a process that has ended hears nothing."""
    channel = pong_channel(ping.waiter)
    await session.execute(select(func.pg_notify(channel, pong.text(ping.number))))
