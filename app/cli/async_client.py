"""The API for commands that do several things at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from angelia_client import NO_RETRIES, AsyncAngelia, ClientError
from app.cli.client import said_in_words
from app.cli.environment import address, api_key


@asynccontextmanager
async def connected_async(api: str | None) -> AsyncIterator[AsyncAngelia]:
    """The API at `api`, or where the settings put it; CliErrors when it does not do as asked."""
    url, key = address(api), api_key()
    with said_in_words():
        async with AsyncAngelia(url, api_key=key, retries=NO_RETRIES, trust_env=False) as client:
            yield client


async def readiness(url: str) -> tuple[bool, str]:
    """Whether the API at `url` can take messages now, and if not, why; never raises."""
    async with AsyncAngelia(url, retries=NO_RETRIES, trust_env=False) as client:
        return await readiness_of(client)


async def readiness_of(client: AsyncAngelia) -> tuple[bool, str]:
    """The same of a client."""
    try:
        said = await client.readiness()
    except ClientError as error:
        return False, error.message
    missing = [name for name, there in said.parts.items() if not there]
    return said.ready, ", ".join(missing)
