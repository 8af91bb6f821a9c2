import pytest

from app.console.address import api_root
from tests.unit.console.test_sessions import a_request


@pytest.mark.parametrize(
    ("headers", "root"),
    [
        ({"host": "angelia.test:8090"}, "http://angelia.test:8090"),
        ({"host": "[::1]:8090"}, "http://[::1]:8090"),
        ({}, "http://127.0.0.1:8090"),
        ({"host": "a", "x_forwarded_proto": "https, http"}, "https://a"),
        ({"host": "a", "x_forwarded_host": "b.test, c.test"}, "http://b.test"),
        ({"host": "a", "x_forwarded_prefix": "/eu/angelia/"}, "http://a/eu/angelia"),
        # What has a meaning for a shell, or leads to another host, is left out.
        ({"host": "a", "x_forwarded_host": "b';rm -rf ~;'"}, "http://a"),
        ({"host": "a", "x_forwarded_host": "b/$(id)"}, "http://a"),
        ({"host": "a b", "x_forwarded_host": "joe@b"}, "http://127.0.0.1:8090"),
        ({"host": "a", "x_forwarded_prefix": "/eu';id;'"}, "http://a"),
        ({"host": "a", "x_forwarded_prefix": "/eu\n/b"}, "http://a"),
        ({"host": "a", "x_forwarded_prefix": "//evil.test"}, "http://a"),
        ({"host": "a", "x_forwarded_prefix": "/../b"}, "http://a"),
        ({"host": "a", "x_forwarded_prefix": "@evil.test"}, "http://a"),
        ({"host": "a", "x_forwarded_prefix": "/a" * 300}, "http://a"),
        ({"host": "a", "x_forwarded_proto": "javascript"}, "http://a"),
    ],
)
def test_commands_lead_where_the_browser_is(headers: dict[str, str], root: str) -> None:
    assert api_root(a_request(**headers)) == root
