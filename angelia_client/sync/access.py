"""API keys, and the audit."""

# Made from angelia_client/aio by `make client`: change it there.

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from angelia_client.models import ApiKey, AuditEvent, NewApiKey
from angelia_client.requests import Query, Request, escaped, get, with_json
from angelia_client.sync.sending import Sender


class Keys:
    """The methods of `client.keys`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def all(self) -> Iterator[ApiKey]:
        """Yield all API keys, also revoked and expired ones."""
        for found in self._sender.listed(get("/keys", {"limit": 1000})):
            yield ApiKey.of(found)

    def create(
        self, name: str, *, scopes: Sequence[str], lifetime: timedelta | None = None
    ) -> NewApiKey:
        """Create an API key. Only this response contains the key.

        Without `lifetime` the key never expires.
        """
        body: dict[str, Any] = {"name": name, "scopes": list(scopes)}
        if lifetime is not None:
            body["expiresIn"] = lifetime // timedelta(seconds=1)
        return NewApiKey.of(self._sender.json(with_json("POST", "/keys", body)))

    def revoke(self, key_id: str) -> None:
        """Revoke an API key. The API no longer accepts the key."""
        self._sender.send(Request(method="DELETE", path=f"/keys/{escaped(key_id)}"))


class Audit:
    """The methods of `client.audit`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def events(self, query: Query | None = None) -> Iterator[AuditEvent]:
        """Yield the changes that were made through the API, newest first.

        `query` has query parameters of `GET /audit` (openapi.yaml).
        """
        for found in self._sender.listed(get("/audit", query or {})):
            yield AuditEvent.of(found)
