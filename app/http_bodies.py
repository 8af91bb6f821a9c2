"""Reads bodies of HTTP responses up to a limit, and never decompresses them.

A decompressed body can be ten thousand times as large as the received bytes, and its size can be
checked only after decompression.
"""

from typing import Final

import httpx

# The header of requests that asks the server for a response without compression.
NOT_COMPRESSED: Final = {"Accept-Encoding": "identity"}


class UnfitBodyError(Exception):
    """The body is compressed or too large. The error's text says which, and begins with a verb."""


async def plain_body(answer: httpx.Response, *, bytes_max: int) -> bytes:
    """Return the body of a streamed response.

    Raises:
        UnfitBodyError: The body is compressed, or has more than `bytes_max` bytes.
        httpx.HTTPError: The connection failed.
    """
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnfitBodyError("is compressed, which was not asked for")
    read = bytearray()
    async for piece in answer.aiter_raw():
        read += piece
        if len(read) > bytes_max:
            raise UnfitBodyError(f"has more than {bytes_max:,} bytes")
    return bytes(read)
