"""Reads bodies of HTTP responses up to a limit, and never decompresses them.

A decompressed body can be ten thousand times as large as the received bytes, before anybody can
check its size.
"""

from typing import Final

import httpx

# The header with which a request asks for a response that is not compressed.
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
