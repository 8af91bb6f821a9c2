"""Makes the URL of an API from host and port (pure)."""

from typing import Final

# The addresses of servers that listen on all addresses. Each comes with the loopback address by
# which this machine reaches such a server.
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - only compared; no server listens there


def url_of(host: str, port: int) -> str:
    """Return the URL by which this machine reaches an API that listens at this host and port."""
    reached = _ANY.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"
