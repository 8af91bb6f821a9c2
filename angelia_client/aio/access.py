"""API keys, and the audit."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

from angelia_client.aio.sending import AsyncSender
from angelia_client.models import ApiKey, AuditEvent, NewApiKey
from angelia_client.requests import Query, Request, escaped, get, with_json


class AsyncKeys:
    """The methods of `client.keys`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def all(self) -> AsyncIterator[ApiKey]:
        """Yield all API keys, also revoked and expired ones."""
        async for found in self._sender.listed(get("/keys", {"limit": 1000})):
            yield ApiKey.of(found)

    async def create(
        self, name: str, *, scopes: Sequence[str], lifetime: timedelta | None = None
    ) -> NewApiKey:
        """Create an API key. Only this response contains the key.

        Without `lifetime` the key never expires.
        """
        body: dict[str, Any] = {"name": name, "scopes": list(scopes)}
        if lifetime is not None:
            body["expiresIn"] = lifetime // timedelta(seconds=1)
        return NewApiKey.of(await self._sender.json(with_json("POST", "/keys", body)))

    async def revoke(self, key_id: str) -> None:
        """Revoke an API key. The API no longer accepts the key."""
        await self._sender.send(Request(method="DELETE", path=f"/keys/{escaped(key_id)}"))


class AsyncAudit:
    """The methods of `client.audit`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def events(self, query: Query | None = None) -> AsyncIterator[AuditEvent]:
        """Yield the changes that were made through the API, newest first.

        `query` has query parameters of `GET /audit` (openapi.yaml).
        """
        async for found in self._sender.listed(get("/audit", query or {})):
            yield AuditEvent.of(found)
