"""Every route for every kind of caller, over real HTTP: who is let through, and who is not."""

import re
from collections.abc import Iterator

import httpx
import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from app.api.access import require_roles, role_of
from app.api.management.application import ROUTERS
from app.api.management.health import status
from app.domain.access.keys import Role
from tests.cases import for_each
from tests.integration.api.guarded import Guarded, bearer, guarded

# By kind of caller: the scopes of its key.
SCOPES = {
    "reader": ["read"],
    "publisher": ["publish:*"],
    "stranger": ["group:other", "topic:shop.other", "owner:Others"],
    "subscription": ["subscription:shop.orders/billing"],
    "team": ["owner:Billing"],
    "topic": ["topic:shop.orders"],
    "group": ["group:shop"],
    "topic team": ["owner:Plaintext/Shop"],
    "admin": ["admin"],
}
KEYED = set(SCOPES)
OWNERS_OF_TOPIC = {"topic", "group", "topic team", "admin"}
OWNERS_OF_SUBSCRIPTION = OWNERS_OF_TOPIC | {"subscription", "team"}
ALLOWED = {
    Role.OPEN: KEYED | {"nobody"},
    Role.ANY: KEYED,
    Role.CREATOR: KEYED - {"reader", "publisher"},
    Role.GROUP_OWNER: {"group", "admin"},
    Role.TOPIC_OWNER: OWNERS_OF_TOPIC,
    Role.SUBSCRIPTION_OWNER: OWNERS_OF_SUBSCRIPTION,
    Role.ADMIN: {"admin"},
}
NAMES = {"topic": "shop.orders", "name": "billing", "group": "shop"}


def routes() -> Iterator[tuple[str, str, Role]]:
    for router in (status.router, *ROUTERS):
        for route in router.routes:
            assert isinstance(route, APIRoute)
            for method in sorted(route.methods or ()):
                yield method, route.path, role_of(route)


def allowed(role: Role, path: str) -> set[str]:
    """The kinds of callers that are let through."""
    if role is not Role.READER:
        return ALLOWED[role]
    if "{name}" in path:
        return OWNERS_OF_SUBSCRIPTION | {"reader"}
    return OWNERS_OF_TOPIC | {"reader"} if "{topic}" in path else {"admin", "reader"}


def expected(caller: str, role: Role, path: str) -> str:
    """What comes of the caller's request."""
    if (path == "/" or path.startswith("/status/")) and role is Role.OPEN:
        return "let through"
    if caller == "forger":
        return "wrong key"
    if caller in allowed(role, path):
        return "let through"
    return "needs a key" if caller == "nobody" else "refused"


def filled(path: str) -> str:
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: NAMES.get(found[1], "0"), path)


def verdict(answer: httpx.Response) -> str:
    """Whether the caller was let through, whatever came of it then."""
    code = answer.json().get("code") if answer.status_code in {401, 403} else None
    match answer.status_code, code:
        case 401, "TOKEN_NOT_PROVIDED":
            return "needs a key"
        case 401, "AUTH_ERROR":
            return "wrong key"
        case 403, "PERMISSION_DENIED":
            return "refused"
        case _:
            # There is no worker here that could send a ping.
            excused = "/status/" in str(answer.url) or str(answer.url).endswith("/ping")
            assert answer.status_code < 500 or excused, answer.text
            return "let through"


async def with_shop(api: Guarded) -> dict[str, dict[str, str]]:
    """A topic and a subscription, and the headers of each kind of caller."""
    await api.make("/topics", {"name": "shop.orders", "owner": {"id": "Shop"}})
    subscription = {"name": "billing", "endpoint": "http://h.test/", "owner": {"id": "Billing"}}
    await api.make("/topics/shop.orders/subscriptions", subscription)
    return {kind: await api.key(*scopes, name=kind) for kind, scopes in SCOPES.items()}


async def test_every_route_lets_those_through_that_its_role_says(postgres_url: str) -> None:
    wrong_verdicts = {}
    async with guarded(postgres_url) as api:
        keys = await with_shop(api)
        callers = {**keys, "nobody": {}, "forger": bearer(f"ang_{'0' * 12}_{'x' * 43}")}
        for method, path, role in routes():
            for caller, headers in callers.items():
                # Nothing is changed: there is no body, and no state of anything is that one.
                answer = await api.http.request(
                    method, filled(path), headers={**headers, "If-Match": '"none"'}
                )
                due = expected(caller, role, path)
                if (was := verdict(answer)) != due:
                    wrong_verdicts[f"{caller}: {method} {path}"] = (was, due)
    assert wrong_verdicts == {}


PUBLISHERS = KEYED - {"reader", "stranger", "subscription", "team"}
OPEN_TO_SOME = {"enabled": True, "publishers": ["reader", "gone"]}


@pytest.fixture
async def callers(guarded_api: Guarded) -> dict[str, dict[str, str]]:
    """The headers of each kind of caller."""
    return {**await with_shop(guarded_api), "nobody": {}}


@pytest.mark.parametrize("path", ["/topics/shop.orders", "/topics/shop.orders/batch"])
@for_each(
    ("auth", "let_through"),
    [
        ({}, PUBLISHERS),
        (OPEN_TO_SOME, {"reader", "admin", "nobody"}),
        ({**OPEN_TO_SOME, "unauthenticatedAccessEnabled": False}, {"reader", "admin"}),
    ],
)
async def test_publishing_lets_those_through_that_may(
    guarded_api: Guarded,
    callers: dict[str, dict[str, str]],
    path: str,
    *,
    auth: dict[str, object],
    let_through: set[str],
) -> None:
    await guarded_api.http.put(
        "/topics/shop.orders", json={"auth": auth}, headers=guarded_api.admin
    )
    for caller, headers in callers.items():
        json = {"Content-Type": "application/json", **headers}
        answer = await guarded_api.http.post(path, content=b"[1]", headers=json)
        assert (answer.status_code == 201) == (caller in let_through), (caller, answer.text)
        if caller not in let_through:
            status, code = (401, "TOKEN_NOT_PROVIDED") if not headers else (403, "AUTH_ERROR")
            assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_route_that_does_not_say_who_may_use_it_is_not_served() -> None:
    router = APIRouter()

    @router.get("/secrets")
    async def secrets() -> str:
        return "all of them"

    with pytest.raises(LookupError, match="/secrets must say who may use it"):
        require_roles(router.routes)
