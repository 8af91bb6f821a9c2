"""Fetches, from the event loop: a connection to each broker for those that may wait on each other.

Without a thread in between: for the messages that come one by one, handing over to another thread
and back costs more than all the rest of reading.
"""

import asyncio
from datetime import timedelta
from typing import Final

from app.domain.message import Partition
from app.log.interface import Chunk
from app.log.kafka.caller import Caller
from app.log.kafka.decoding import decode
from app.log.kafka.fetch_wire import FetchAnswer, FetchRequest, fetch_frame, read_fetch
from app.log.kafka.places import Places

OFFSET_OUT_OF_RANGE: Final = 1

# Beyond what the request itself waits.
_ANSWER_TIMEOUT: Final = timedelta(seconds=3)
_CLIENT: Final = "angelia-reading"
# What is larger is taken apart on a thread: it would hold up all deliveries.
_DECODED_HERE_BYTES_MAX: Final = 32 * 1024


class Fetcher:
    """A broker answers one connection's requests in order, so a long poll has one of its own."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._callers: dict[int, Caller] = {}
        self.closed = False

    async def fetch(self, node: int, request: FetchRequest) -> FetchAnswer:
        """The broker's answer.

        Raises:
            NotSentError: there is no connection.
            LogUnavailableError: there was no answer.
            MalformedAnswerError: it cannot be read.
        """
        frame = await self._caller(node).ask(
            lambda correlation: fetch_frame(correlation, request, client=_CLIENT)
        )
        return read_fetch(frame)

    def close(self) -> None:
        """Close all connections; who waits for an answer is told."""
        self.closed = True
        for caller in self._callers.values():
            caller.close()

    def _caller(self, node: int) -> Caller:
        caller = self._callers.get(node)
        if caller is None:
            caller = self._callers[node] = Caller(
                node, lambda: self._places.address(node), answer_timeout=_ANSWER_TIMEOUT
            )
            if self.closed:
                caller.close()
        return caller


async def chunk_of(partition: Partition, offset: int, records: bytes) -> Chunk:
    """The chunk from `offset` on in a fetch answer's bytes; CorruptBatchError."""
    if len(records) <= _DECODED_HERE_BYTES_MAX:
        decoded = decode(records, offset)
    else:
        decoded = await asyncio.to_thread(decode, records, offset)
    return Chunk(partition, offset, decoded.next_offset, decoded.records, len(records))
