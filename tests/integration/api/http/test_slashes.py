"""Paths with a slash too many or too few: answered by redirects that stay where they are."""

import httpx
import pytest

from tests.cases import for_each


@for_each(
    ("path", "place"),
    [
        ("/topics/", "../topics"),
        ("/topics//", "../../topics"),
        ("/topics/shop.orders/?a=b%2F", "../shop.orders?a=b%2F"),
        ("/topics/http:%2F%2Fevil.test/", None),
        ("/topics/x:y/", "../x%3Ay"),
        ("/nowhere/", None),
        ("//evil.test/", None),
        ("//evil.test/topics/", None),
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1"])
async def test_a_redirect_names_no_host(
    api: httpx.AsyncClient, *, path: str, place: str | None, host: str
) -> None:
    url = str(api.base_url).rstrip("/") + path
    answer = await api.get(url, headers={"Host": host})
    assert answer.status_code == (404 if place is None else 307)
    assert answer.headers.get("location") == place


async def test_it_leads_to_what_was_meant(api: httpx.AsyncClient) -> None:
    answer = await api.get("/topics/", follow_redirects=True)
    assert (answer.status_code, answer.json()) == (200, [])
