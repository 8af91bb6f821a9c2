"""Opens an asyncio client for commands that do several things at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from angelia_client import NO_RETRIES, AsyncAngelia, ClientError
from app.cli.client import errors_in_words
from app.cli.environment import address, api_key


@asynccontextmanager
async def connected_async(api: str | None) -> AsyncIterator[AsyncAngelia]:
    """Yield a client for the API at `api`; without `api`, at the address in the settings.

    Errors of the client become CliErrors.
    """
    url, key = address(api), api_key()
    with errors_in_words():
        async with AsyncAngelia(url, api_key=key, retries=NO_RETRIES, trust_env=False) as client:
            yield client


async def readiness(url: str) -> tuple[bool, str]:
    """Return whether the API at `url` can accept messages now, and if not, why.

    This function raises no errors. A failed request means that the API is not ready.
    """
    async with AsyncAngelia(url, retries=NO_RETRIES, trust_env=False) as client:
        return await readiness_of(client)


async def readiness_of(client: AsyncAngelia) -> tuple[bool, str]:
    """Return whether the API of a client can accept messages now, and if not, why."""
    try:
        answer = await client.readiness()
    except ClientError as error:
        return False, error.message
    missing = [name for name, there in answer.parts.items() if not there]
    return answer.ready, ", ".join(missing)
