"""A server that accepts connections, and does not answer."""

import asyncio
from asyncio import StreamReader, StreamWriter

import pytest

from app.domain.errors import StorageUnavailableError
from app.domain.uncollected import Uncollected
from app.storage.database import open_database
from tests.contract.logs import EVENTUALLY
from tests.fakes.keys import VAULT


async def test_a_connection_that_is_given_up_is_closed_without_a_garbage_collection() -> None:
    closed = asyncio.Event()

    async def silent(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read()
        closed.set()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        url = f"postgresql://postgres@{host}:{port}/postgres"
        async with open_database(url, vault=VAULT) as database:
            with Uncollected():
                with pytest.raises(StorageUnavailableError):
                    await database.ping()
                async with asyncio.timeout(EVENTUALLY):
                    await closed.wait()
