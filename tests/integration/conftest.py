"""How servers of tests may listen: in the clear, and by TLS."""

import ssl
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fakes.authority import Authority


class Wire(NamedTuple):
    """How a server listens, and whom its clients trust."""

    server: ssl.SSLContext | None = None
    ca_file: Path | None = None


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(params=["http", "https"])
def wire(request: pytest.FixtureRequest, authority: Authority) -> Wire:
    """In the clear, and by TLS."""
    if request.param == "http":
        return Wire()
    return Wire(authority.server("127.0.0.1"), authority.ca_file)
