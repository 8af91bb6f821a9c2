"""The life of API keys: the first one, new ones, and their ends."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta

from alembic import command
from pydantic import SecretStr

from app.config import Settings
from app.domain.access.keys import Scope
from app.main import create_app
from app.services.access.keys import KeyDraft, KeyService
from app.services.access.known_keys import KeyUse, known_keys
from app.storage.database import Database
from app.storage.migrate import alembic_config, upgrade
from tests.cases import for_each
from tests.fakes.keys import KEY
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.guarded import PATIENCE_S, Guarded, bearer, guarded
from tests.integration.api.server import given, serving


async def test_an_empty_installation_announces_one_admins_key_once(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        roles = await api.http.get("/roles", headers=api.admin)
        assert roles.json() == ["any", "admin"]
        assert (await api.http.get("/roles")).json() == []
        assert (await api.http.get("/topics")).status_code == 401
    async with guarded(postgres_url, first=False) as again:
        # Refused, and nothing is announced again.
        assert (await again.http.get("/topics", headers=bearer("ang_x"))).status_code == 401


async def test_a_process_that_is_there_before_its_tables_waits_for_them(
    postgres_url: str, log: MemoryLog
) -> None:
    command.downgrade(alembic_config(postgres_url), "base")
    announced: asyncio.Queue[str] = asyncio.Queue()
    app = create_app(
        Settings(auth="keys", secret_key=SecretStr(KEY)),
        database_url=postgres_url,
        log=given(log),
        announce=announced.put_nowait,
    )
    async with serving(app) as api, asyncio.timeout(PATIENCE_S):
        assert (await api.get("/status/ready")).json()["status"] == "NOT_READY"
        forged = bearer(f"ang_{'0' * 12}_{'x' * 43}")
        assert (await api.get("/topics", headers=forged)).status_code == 503
        assert (await api.get("/topics")).status_code == 401
        await asyncio.to_thread(upgrade, postgres_url)
        first = bearer(await announced.get())
        assert (await api.get("/topics", headers=first)).status_code == 200


async def test_of_many_processes_that_start_at_once_one_makes_the_first_key(
    database: Database,
) -> None:
    made = await asyncio.gather(*(KeyService(database).create_first() for _ in range(8)))
    assert len([each for each in made if each is not None]) == 1


async def test_a_key_is_shown_once_and_listed_without_its_token(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        body = {"name": "shop", "scopes": ["publish:shop.*", "owner:Shop", "publish:shop.*"]}
        made = await api.http.post("/keys", json=body, headers=api.admin)
        assert made.status_code == 201
        shown = made.json()
        assert shown["scopes"] == ["publish:shop.*", "owner:Plaintext/Shop"]
        assert shown["key"].startswith(f"ang_{shown['id']}_")
        assert made.headers["Cache-Control"] == "no-store"
        listed = await api.http.get("/keys", headers=api.admin)
        one = await api.http.get(made.headers["Location"], headers=api.admin)
        assert {key["name"] for key in listed.json()} == {"first", "shop"}
        assert one.json() == {name: value for name, value in shown.items() if name != "key"}
        assert shown["key"].split("_", 2)[2] not in listed.text


async def test_a_key_is_taken_as_a_password_too(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        token = api.admin["Authorization"].removeprefix("Bearer ")
        basic = base64.b64encode(f"anybody:{token}".encode()).decode()
        answers = [
            await api.http.get("/topics", headers={"Authorization": each})
            for each in (f"Basic {basic}", f"bearer  {token}", "Basic !", f"Digest {token}", "")
        ]
        assert [each.status_code for each in answers] == [200, 200, 401, 401, 401]
        assert answers[-1].headers["WWW-Authenticate"].startswith("Bearer")


async def test_a_revoked_key_opens_nothing_at_other_processes_either(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        shop = await api.key("publish:*", name="shop")
        await api.make("/topics", {"name": "shop.orders"})
        settings = Settings(auth="keys", secret_key=SecretStr(KEY))
        app = create_app(settings, database_url=postgres_url, log=given(MemoryLog()))
        async with serving(app) as other:
            assert (await other.get("/topics", headers=shop)).status_code == 200
            [key] = [
                key
                for key in (await api.http.get("/keys", headers=api.admin)).json()
                if key["name"] == "shop"
            ]
            revoked = await api.http.delete(f"/keys/{key['id']}", headers=api.admin)
            assert revoked.json()["revokedAt"]
            assert (await api.http.get("/topics", headers=shop)).status_code == 401
            async with asyncio.timeout(PATIENCE_S):
                while (await other.get("/topics", headers=shop)).status_code != 401:
                    pass
        again = await api.http.delete(f"/keys/{key['id']}", headers=api.admin)
        assert again.json() == revoked.json()


async def test_a_new_key_works_at_other_processes_within_moments(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        app = create_app(
            Settings(auth="keys", secret_key=SecretStr(KEY)),
            database_url=postgres_url,
            log=given(MemoryLog()),
        )
        async with serving(app) as other:
            new = await api.key("read")
            async with asyncio.timeout(PATIENCE_S):
                while (await other.get("/topics", headers=new)).status_code != 200:
                    pass


async def test_an_expired_key_opens_nothing(database: Database) -> None:
    times = [datetime.now(UTC)]
    keys = known_keys(database, now=lambda: times[0])
    service = KeyService(database, keys)
    made = await service.create_first()
    assert made is not None
    assert keys.known(made.token.encode()) is not None
    soon = await service.create(_expiring(times[0] + timedelta(minutes=1)))
    assert keys.known(soon.token.encode()) is not None
    times[0] += timedelta(minutes=1)
    assert keys.known(soon.token.encode()) is None


async def test_the_last_use_of_a_key_is_told(database: Database) -> None:
    keys = known_keys(database)
    service = KeyService(database, keys)
    made = await service.create_first()
    assert made is not None
    assert made.key.last_used_at is None
    keys.known(made.token.encode())
    await KeyUse(database, keys).note()
    assert (await service.get(made.key.id)).last_used_at is not None


@for_each(
    ("body", "path"),
    [
        ({"scopes": ["read"]}, "name"),
        ({"name": "", "scopes": ["read"]}, "name"),
        ({"name": "a\nb", "scopes": ["read"]}, "name"),
        ({"name": "a", "scopes": []}, "scopes"),
        ({"name": "a", "scopes": ["read", "all"]}, "scopes.1"),
        ({"name": "a", "scopes": ["topic:orders"]}, "scopes.0"),
        ({"name": "a", "scopes": ["read"], "expiresAt": "soon"}, "expiresAt"),
        ({"name": "a", "scopes": ["read"], "expiresAt": "2020-01-01T00:00:00Z"}, "expiresAt"),
        ({"name": "a", "scopes": ["read"], "expiresAt": "9999-12-31T23:59:59-14:00"}, "expiresAt"),
        ({"name": "a", "scopes": ["read"], "expiresIn": 0}, "expiresIn"),
        (
            {"name": "a", "scopes": ["read"], "expiresIn": 9, "expiresAt": "2099-01-01T00:00:00Z"},
            "expiresIn",
        ),
    ],
)
async def test_a_key_that_cannot_be_is_refused_with_its_field(
    guarded_api: Guarded, body: dict[str, object], path: str
) -> None:
    refused = await guarded_api.http.post("/keys", json=body, headers=guarded_api.admin)
    assert refused.status_code == 400
    assert [each["path"] for each in refused.json()["details"]] == [path]


def _expiring(at: datetime) -> KeyDraft:
    return KeyDraft(name="soon", scopes=(Scope.parse("read"),), expires_at=at)
