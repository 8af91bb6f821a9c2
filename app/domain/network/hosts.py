"""Lists of hosts: names, addresses, and `*.name` for everything below a name."""

import re
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from app.domain.network.egress import Address

# The entry of a list that means any host. Only some lists may have this entry.
ANY: Final = "*"

_ANY_BELOW: Final = "*."
_LENGTH_MAX: Final = 253
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?")


def is_host_of(hosts: Sequence[str], endpoint: str) -> bool:
    """Whether `hosts` has the host of `endpoint`.

    An entry `*.name` stands for all hosts below `name`.
    """
    return is_one_of(hosts, urlsplit(endpoint).hostname or "")


def is_one_of(hosts: Sequence[str], host: str) -> bool:
    """Whether `hosts` has `host`. An entry `*.name` stands for all hosts below `name`."""
    plain = _plain(host)
    return any(_fits(plain, _plain(each)) for each in hosts)


def host_problem(text: str) -> str | None:
    """Return what is wrong with an entry of a list of hosts; None if it is valid."""
    name = text.removeprefix(_ANY_BELOW)
    if address_of(text) or (len(name) <= _LENGTH_MAX and _NAME.fullmatch(name)):
        return None
    return (
        "must be a host such as api.example.com, or *.example.com for all below it,"
        " without scheme, port and path"
    )


def address_of(host: str) -> Address | None:
    """Return the address in a host, with or without brackets.

    None for a name or an invalid host.
    """
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _plain(host: str) -> str:
    """Return the host in a common form, so that different spellings of a host become equal."""
    return host.lower().removeprefix("[").removesuffix("]").removesuffix(".")


def _fits(host: str, wanted: str) -> bool:
    if wanted.startswith(_ANY_BELOW):
        return host.endswith(wanted[1:])
    return host == wanted
