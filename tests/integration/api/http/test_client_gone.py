from collections.abc import MutableMapping
from types import SimpleNamespace
from typing import Any

from app.api.management.application import management_app
from app.services.access.authorization import AccessService
from app.services.access.known_keys import KnownKeys
from app.storage.database import open_database
from tests.fakes.access import nothing


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
    app = management_app()
    async with open_database("postgresql://nobody@127.0.0.1:1/nothing") as database:
        access = AccessService(database, KnownKeys(nothing), controlled=False)
    app.state.services = SimpleNamespace(access=access)
    # What the application raises, the server logs as an error with a traceback.
    await app(scope, receive, send)
    assert sent[0]["status"] == 400
