"""The address of an API (pure)."""

from typing import Final

# A server on all addresses of a machine is reached there by the loopback address.
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


def url_of(host: str, port: int) -> str:
    """Return the URL of an API that listens there, from this machine."""
    reached = _ANY.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"
