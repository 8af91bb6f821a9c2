"""Answers of a service whose database has a second to answer: a busy machine takes longer."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx

PATIENCE_S = 60.0


async def answer_of(ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """The first answer other than 503."""
    async with asyncio.timeout(PATIENCE_S):
        while (answer := await ask()).status_code == httpx.codes.SERVICE_UNAVAILABLE:
            pass
    return answer


async def readiness(
    api: httpx.AsyncClient, *, is_ready: bool, accept: str = "application/json"
) -> httpx.Response:
    """The answer when the service is ready, or not ready, and all its parts have answered."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await api.get("/status/ready", headers={"Accept": accept})
            if answer.is_success is is_ready and "no answer within" not in answer.text:
                return answer
