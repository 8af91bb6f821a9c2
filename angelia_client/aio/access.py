"""Who may call the API, and who has done what."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

from angelia_client.aio.sending import AsyncSender
from angelia_client.models import ApiKey, AuditEvent, NewApiKey
from angelia_client.requests import Query, Request, escaped, get, with_json


class AsyncKeys:
    """`client.keys`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def all(self) -> AsyncIterator[ApiKey]:
        """All API keys, also those that were revoked or have expired."""
        async for found in self._sender.listed(get("/keys", {"limit": 1000})):
            yield ApiKey.of(found)

    async def create(
        self, name: str, *, scopes: Sequence[str], lifetime: timedelta | None = None
    ) -> NewApiKey:
        """Make an API key; this answer alone has it. Without `lifetime` it is for good."""
        body: dict[str, Any] = {"name": name, "scopes": list(scopes)}
        if lifetime is not None:
            body["expiresIn"] = lifetime // timedelta(seconds=1)
        return NewApiKey.of(await self._sender.json(with_json("POST", "/keys", body)))

    async def revoke(self, key_id: str) -> None:
        """Let an API key open nothing any more."""
        await self._sender.send(Request(method="DELETE", path=f"/keys/{escaped(key_id)}"))


class AsyncAudit:
    """`client.audit`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def events(self, query: Query | None = None) -> AsyncIterator[AuditEvent]:
        """What was changed, newest first; `query` as in the API's document."""
        async for found in self._sender.listed(get("/audit", query or {})):
            yield AuditEvent.of(found)
