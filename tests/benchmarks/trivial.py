"""The least that a publish could cost: `python -m tests.benchmarks.trivial PORT` answers at once.

The same server and the same connections as the API's, with an application that reads the body and
answers 201 without doing anything. What a publish costs beyond it is ours.
"""

import sys
from typing import Final

import uvicorn
from starlette.types import Receive, Scope, Send

from app.api.server.connection import BoundedConnection
from app.main import KEEP_ALIVE_S

_HEADERS: Final = [
    (b"angelia-subscriptions", b"0"),
    (b"hermes-message-id", b"5f0c2b0e-3b8e-4d0a-9d53-7c1d3c1b8f11"),
    (b"content-length", b"0"),
]


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Take everything, and keep nothing."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 201, "headers": list(_HEADERS)})
    await send({"type": "http.response.body", "body": b""})


async def _live(receive: Receive, send: Send) -> None:
    for stage in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{stage}.complete"})


if __name__ == "__main__":
    uvicorn.run(
        answer,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http=BoundedConnection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
