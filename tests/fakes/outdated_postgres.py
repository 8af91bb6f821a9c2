"""A server that claims to be a PostgreSQL that Angelia cannot use.

Clients can connect, and read its version and encoding.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

_NO_ENCRYPTION = b"N"
_AUTHENTICATED = b"R" + struct.pack(">ii", 8, 0)
_READY = b"Z" + struct.pack(">ic", 5, b"I")
_LEAST_REQUEST = 8
_PROTOCOL_3 = 3 << 16


@contextmanager
def outdated_postgres(version: str, *, encoding: str = "UTF8") -> Iterator[str]:
    """Run a server that accepts every client and reports these; yield its URL."""
    told = {
        "server_version": version,
        "server_encoding": encoding,
        "client_encoding": "UTF8",
    }
    greeting = _AUTHENTICATED + b"".join(map(_parameter, told, told.values())) + _READY
    listener = socket.create_server(("127.0.0.1", 0))
    thread = Thread(target=_serve, args=(listener, greeting), daemon=True)
    thread.start()
    try:
        yield f"postgresql://angelia@127.0.0.1:{listener.getsockname()[1]}/angelia"
    finally:
        # Wake the thread: a call of `accept` does not notice that its socket was closed.
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        listener.close()


def _parameter(name: str, value: str) -> bytes:
    text = f"{name}\0{value}\0".encode()
    return b"S" + struct.pack(">i", 4 + len(text)) + text


def _serve(listener: socket.socket, greeting: bytes) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        client.settimeout(10)
        with client, suppress(OSError):
            _greet(client, greeting)
            # Wait until the client ends the session; it sends nothing else.
            client.recv(1)


def _greet(client: socket.socket, greeting: bytes) -> None:
    """Refuse requests for encryption, and answer the request that begins a session."""
    while len(request := client.recv(4096)) >= _LEAST_REQUEST:
        if struct.unpack(">ii", request[:_LEAST_REQUEST])[1] == _PROTOCOL_3:
            client.sendall(greeting)
            return
        client.sendall(_NO_ENCRYPTION)
