"""Makes the URL of an API from host and port (pure)."""

from typing import Final

# Addresses of servers that listen on all addresses, with the loopback address by which this machine
# reaches them.
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared; nothing listens there


def url_of(host: str, port: int) -> str:
    """Return the URL by which this machine reaches an API that listens there."""
    reached = _ANY.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"
