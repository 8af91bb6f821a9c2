from itertools import product

import pytest

from app.cli.environment import address, api_key
from app.cli.errors import CliError
from app.cli.settings import api_url, settings_with


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOST", "PORT", "API_KEY"):
        monkeypatch.delenv(f"ANGELIA_{name}", raising=False)


@pytest.mark.parametrize(
    ("host", "port"),
    list(product([None, "0.0.0.0", "::", "::1", "api.example.com"], [None, "0", "9000"])),  # noqa: S104 - read, not bound
)
def test_the_address_is_that_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, host: str | None, port: str | None
) -> None:
    for name, text in (("ANGELIA_HOST", host), ("angelia_port", port)):
        if text is not None:
            monkeypatch.setenv(name, text)
    assert address(None) == api_url(settings_with())


def test_an_address_that_is_given_is_used() -> None:
    assert address("https://api.example.com") == "https://api.example.com"


@pytest.mark.parametrize("port", ["many", "-1", "65536", ""])
def test_a_port_that_is_none_is_refused_as_by_the_settings(
    monkeypatch: pytest.MonkeyPatch, port: str
) -> None:
    monkeypatch.setenv("ANGELIA_PORT", port)
    for read in (settings_with, lambda: address(None)):
        with pytest.raises(CliError) as caught:
            read()
        assert [each.path for each in caught.value.details] == ["ANGELIA_PORT"]


@pytest.mark.parametrize("key", [None, "", "ang_k"])
def test_the_key_is_that_of_the_settings(monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    if key is not None:
        monkeypatch.setenv("ANGELIA_API_KEY", key)
    configured = settings_with().api_key
    expected = None if configured is None else configured.get_secret_value() or None
    assert api_key() == expected
