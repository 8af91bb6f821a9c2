"""A server that tells a client by a TLS alert why it refuses it. asyncio's servers only close."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from tests.fakes.hostile import OK


@contextmanager
def outspoken(tls: ssl.SSLContext) -> Iterator[str]:
    """Run a server that answers the first request of each connection, and yield its URL.

    If the TLS handshake fails, the client gets an alert with the reason.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    thread = Thread(target=_serve, args=(listener, tls), daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        # Wake the thread: a call of `accept` does not notice that its socket was closed.
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        listener.close()


def _serve(listener: socket.socket, tls: ssl.SSLContext) -> None:
    while True:
        try:
            connected, _ = listener.accept()
        except OSError:
            return
        connected.settimeout(10)
        with connected, suppress(OSError):
            _greet(connected, tls)


def _greet(connected: socket.socket, tls: ssl.SSLContext) -> None:
    secured = tls.wrap_socket(connected, server_side=True, do_handshake_on_connect=False)
    try:
        secured.do_handshake()
        secured.recv(65536)
        secured.sendall(OK)
    except ssl.SSLError:
        plain = socket.socket(fileno=secured.detach())
        with plain:
            # Read everything that the client sends. Unread data would reset the connection, and the
            # client would lose the alert.
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(65536):
                pass
    else:
        secured.close()
