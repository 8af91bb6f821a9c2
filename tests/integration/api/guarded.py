"""An API that asks for keys, and callers with keys of all kinds."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
from pydantic import SecretStr

from app.config import Settings
from app.main import create_app
from tests.fakes.keys import KEY
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.server import given, serving

PATIENCE_S = 60.0


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@dataclass(slots=True)
class Guarded:
    """An API with access control, and its first key."""

    http: httpx.AsyncClient
    admin: dict[str, str]

    async def key(self, *scopes: str, name: str = "somebody") -> dict[str, str]:
        """The headers of a new key."""
        made = await self.http.post(
            "/keys", json={"name": name, "scopes": scopes}, headers=self.admin
        )
        assert made.status_code == 201, made.text
        return bearer(made.json()["key"])

    async def make(self, path: str, body: Mapping[str, object]) -> httpx.Response:
        """Create something as an admin."""
        made = await self.http.post(path, json=body, headers=self.admin)
        assert made.status_code == 201, made.text
        return made

    async def delete(self, path: str) -> bool:
        """Delete something as an admin; False if that is refused, or if it does not exist."""
        return (await self.http.delete(path, headers=self.admin)).is_success

    async def events(self, **query: str) -> Sequence[Mapping[str, object]]:
        """Audit events, newest first."""
        answer = await self.http.get("/audit", params=query, headers=self.admin)
        events: Sequence[Mapping[str, object]] = answer.raise_for_status().json()
        return events


@asynccontextmanager
async def guarded(
    postgres_url: str, *, log: MemoryLog | None = None, first: bool = True
) -> AsyncIterator[Guarded]:
    """Served on a free port; `first`: wait for the key that an empty installation prints."""
    announced: asyncio.Queue[str] = asyncio.Queue()
    app = create_app(
        Settings(auth="keys", secret_key=SecretStr(KEY)),
        database_url=postgres_url,
        log=given(log or MemoryLog()),
        announce=announced.put_nowait,
    )
    async with serving(app) as http:
        token = ""
        if first:
            async with asyncio.timeout(PATIENCE_S):
                token = await announced.get()
        yield Guarded(http, bearer(token))
        assert announced.empty()
