from collections.abc import MutableMapping
from typing import Any

from app.api.management import management_app


async def test_a_client_that_goes_away_in_its_body_is_no_defect() -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/groups",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    # What the application raises, the server logs as an error with a traceback.
    await management_app()(scope, receive, send)
    assert sent[0]["status"] == 400
