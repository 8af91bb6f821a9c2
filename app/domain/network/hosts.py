"""Lists of hosts: names, addresses, and `*.name` for all that is below a name."""

import re
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from app.domain.network.egress import Address

# What a list has that leaves no host out, where it may.
ANY: Final = "*"

_ANY_BELOW: Final = "*."
_LENGTH_MAX: Final = 253
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?")


def is_host_of(hosts: Sequence[str], endpoint: str) -> bool:
    """Whether the host of `endpoint` is one of `hosts`, or below one that begins with `*.`."""
    return is_one_of(hosts, urlsplit(endpoint).hostname or "")


def is_one_of(hosts: Sequence[str], host: str) -> bool:
    """As `is_host_of`, of a host itself."""
    plain = _plain(host)
    return any(_fits(plain, _plain(each)) for each in hosts)


def host_problem(text: str) -> str | None:
    """What is wrong with a host that tokens may go to, if anything is."""
    name = text.removeprefix(_ANY_BELOW)
    if address_of(text) or (len(name) <= _LENGTH_MAX and _NAME.fullmatch(name)):
        return None
    return (
        "must be a host such as api.example.com, or *.example.com for all below it,"
        " without scheme, port and path"
    )


def address_of(host: str) -> Address | None:
    """The address that a host is, in brackets or not; None where it is a name, or no host."""
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _plain(host: str) -> str:
    """One of the spellings of a host."""
    return host.lower().removeprefix("[").removesuffix("]").removesuffix(".")


def _fits(host: str, wanted: str) -> bool:
    if wanted.startswith(_ANY_BELOW):
        return host.endswith(wanted[1:])
    return host == wanted
