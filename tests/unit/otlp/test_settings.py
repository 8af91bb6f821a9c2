"""Where telemetry is sent to, and what goes with it."""

import pytest
from pydantic import SecretStr, ValidationError

from app.config import Settings


@pytest.mark.parametrize("url", ["http://collector:4318", "https://user:secret@host/otlp/x"])
def test_an_endpoint_is_a_url_of_http(url: str) -> None:
    endpoint = Settings(otlp_endpoint=SecretStr(url)).otlp_endpoint
    assert endpoint is not None
    assert endpoint.get_secret_value() == url


@pytest.mark.parametrize(
    "url", ["collector:4318", "grpc://host:4317", "http:///x", "http://h/?a=b"]
)
def test_anything_else_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ValidationError, match="otlp_endpoint") as refused:
        Settings(otlp_endpoint=SecretStr(url))
    assert url not in str(refused.value)


def test_headers_are_names_and_values() -> None:
    settings = Settings(otlp_headers=SecretStr("Authorization=Basic a=b==, X-Team = shop"))
    assert settings.otlp_header_fields == {"Authorization": "Basic a=b==", "X-Team": "shop"}
    assert Settings().otlp_header_fields == {}


@pytest.mark.parametrize("text", ["x", "=y", "a b=c", "a=", "a=b,,"])
def test_headers_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="name=value"):
        Settings(otlp_headers=SecretStr(text))
