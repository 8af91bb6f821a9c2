"""The HTTP proxy for deliveries, for networks without another way out."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import unquote, urlsplit

from app.domain.network.egress import LOOPBACK, Address, Network, canonical

_FORM: Final = "must be http://host:port, with user:password@ before the host if it asks for them"


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressProxy:
    """A proxy that opens tunnels (CONNECT) to the addresses of deliveries.

    If all addresses of a host are in the `direct` networks, the host is connected without the
    proxy.
    """

    host: str
    port: int
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    direct: tuple[Network, ...] = LOOPBACK

    @classmethod
    def of(cls, url: str, *, direct: tuple[Network, ...] = LOOPBACK) -> Self:
        """Return the proxy at `url`.

        Raises:
            ValueError: `url` is not a proxy URL; the error does not contain its password.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError(_FORM) from None
        if parts.scheme != "http" or not host or not port or parts.path.strip("/") or parts.query:
            raise ValueError(_FORM)
        return cls(
            host=host,
            port=port,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            direct=direct,
        )

    @property
    def authorization(self) -> str | None:
        """The value of Proxy-Authorization (HTTP Basic, RFC 7617, UTF-8).

        None if the proxy has no credentials.
        """
        if not (self.user or self.password):
            return None
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")

    def leads_to(self, addresses: Sequence[Address]) -> bool:
        """Whether a host with these addresses is reached through the proxy."""
        return bool(self.beyond(addresses))

    def beyond(self, addresses: Sequence[Address]) -> Sequence[Address]:
        """Return the addresses that are reached through the proxy: those not in `direct` networks.

        For the proxy, an address in a `direct` network would be another machine. For example,
        127.0.0.1 would be the machine of the proxy.
        """
        return [each for each in addresses if not self._is_direct(canonical(each))]

    def _is_direct(self, address: Address) -> bool:
        return any(address in network for network in self.direct)
