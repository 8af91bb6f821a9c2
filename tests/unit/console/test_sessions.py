from base64 import b64decode

import pytest
from starlette.requests import Request
from starlette.responses import Response

from app.console import sessions
from app.console.sessions import SESSION_S, Sessions
from app.vault import Vault, new_key
from tests.fakes.keys import KEY


def a_request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request(
        {
            "type": "http",
            "scheme": "http",
            "path": "/",
            "headers": raw,
            "method": "POST",
            "server": ("angelia.test", 80),
            "query_string": b"",
        }
    )


def test_a_session_has_the_key_for_each_process_of_the_installation() -> None:
    cookie = Sessions(Vault.of(KEY)).sealed("ang_x")
    assert Sessions(Vault.of(KEY)).key_in(cookie) == "ang_x"
    assert "ang_x" not in cookie


def test_a_session_ends_after_its_time() -> None:
    now = [1000.0]
    made = Sessions(Vault.of(KEY), clock=lambda: now[0])
    cookie = made.sealed("ang_x")
    now[0] += SESSION_S - 1
    assert made.key_in(cookie) == "ang_x"
    now[0] += 1
    assert made.key_in(cookie) is None


@pytest.mark.parametrize("spoil", ["", "v1.x.y", "nonsense", "v1..", "\u00e9"])
def test_what_is_no_session_of_ours_opens_nothing(spoil: str) -> None:
    assert Sessions(Vault.of(KEY)).key_in(spoil) is None


def test_a_session_of_another_installation_opens_nothing() -> None:
    other = Sessions(Vault([b64decode(new_key())])).sealed("ang_x")
    assert Sessions(Vault.of(KEY)).key_in(other) is None


def test_a_form_goes_with_any_of_the_cookies_that_the_browser_sends() -> None:
    request = a_request(cookie="a=1; angelia_form=one; angelia_session=two; angelia_form=three")
    for cookie in ("one", "two", "three"):
        assert sessions.is_form_of(request, sessions.form_token(cookie))
    assert not sessions.is_form_of(request, sessions.form_token("four"))
    assert not sessions.is_form_of(request, "")
    assert not sessions.is_form_of(request, "f\u00fcnf")
    assert not sessions.is_form_of(a_request(), sessions.form_token(""))


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({}, True),
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "cross-site", "origin": "http://angelia.test"}, False),
        ({"sec_fetch_site": "same-site"}, False),
        ({"origin": "http://angelia.test", "host": "angelia.test"}, True),
        ({"origin": "http://evil.test", "host": "angelia.test"}, False),
        ({"origin": "null", "host": "angelia.test"}, False),
        ({"origin": "https://a.test", "host": "x", "x_forwarded_host": "a.test"}, True),
    ],
)
def test_only_our_own_pages_send_forms(headers: dict[str, str], *, ours: bool) -> None:
    assert sessions.is_from_our_page(a_request(**headers)) is ours


@pytest.mark.parametrize(
    ("outside", "secure"), [("http", False), ("https", True), ("https, http", True)]
)
def test_a_cookie_is_secure_where_the_reader_came_by_tls(outside: str, *, secure: bool) -> None:
    response = Response()
    request = a_request(x_forwarded_proto=outside)
    sessions.set_cookie(request, response, name="a", value="b")
    said = response.headers["set-cookie"]
    assert said.startswith("a=b; HttpOnly; SameSite=Strict")
    assert ("Secure" in said) is secure
