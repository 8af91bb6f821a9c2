"""Sockets without a network: written bytes are stored, and no other side reads them."""

import asyncio


class Unread(asyncio.Transport):
    """The transport of a connection whose other side is played by a test."""

    def __init__(self, extra: dict[str, object] | None = None) -> None:
        super().__init__(extra)
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True
