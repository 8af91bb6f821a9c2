"""A subscriber in a thread of its own: tests with a browser have no event loop."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(slots=True)
class Endpoint:
    """Answers each request with `status`, which may be replaced at any time."""

    url: str
    status: int = 200
    bodies: list[bytes] = field(default_factory=list)


@contextmanager
def an_endpoint() -> Iterator[Endpoint]:
    """Yield a subscriber that listens."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = endpoint.status
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            endpoint.bodies.append(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class'
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        endpoint = Endpoint(f"http://127.0.0.1:{server.server_port}/orders")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield endpoint
        server.shutdown()
        thread.join()
