"""Caches the coordinator of each Kafka group, which is a broker, and the broker's address.

This cache is for the event loop.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from kafka import errors

from app.log.kafka.bridge import Untyped
from app.log.kafka.link import Address


class FoundGroups(NamedTuple):
    """The known coordinators of groups, and the addresses of these brokers.

    `refused` has the groups whose coordinator the brokers refuse to name, with the error code.
    """

    nodes: Mapping[str, int]
    addresses: Mapping[int, Address]
    refused: Mapping[str, int]


LookForGroups = Callable[[Collection[str]], Awaitable[FoundGroups]]
"""Looks up coordinators of groups by full names.

Raises FAILED_TRY errors or LogUnavailableError.
"""


def found_groups(reported: Iterable[Untyped]) -> FoundGroups:
    """Return the coordinators that brokers reported.

    A group with a temporary error is left out, as if there were no response.
    """
    nodes: dict[str, int] = {}
    addresses: dict[int, Address] = {}
    refused: dict[str, int] = {}
    for each in reported:
        if each.error_code == 0:
            nodes[each.key] = each.node_id
            # Take the address from this response. If a broker has moved, an address from another
            # source may be old.
            addresses[each.node_id] = (each.host, each.port)
        elif not errors.for_code(each.error_code).retriable:
            refused[each.key] = each.error_code
    return FoundGroups(nodes, addresses, refused)


class Coordinators:
    """Looks up coordinators of groups, and caches each of them until it turns out to be wrong."""

    def __init__(self, look: LookForGroups) -> None:
        self._look = look
        self._nodes: dict[str, int] = {}
        self._addresses: dict[int, Address] = {}

    def grouped(self, groups: Iterable[str]) -> tuple[Mapping[int, list[str]], list[str]]:
        """Return the groups by coordinator, and the groups whose coordinator is unknown."""
        grouped: dict[int, list[str]] = {}
        unknown: list[str] = []
        for group in groups:
            if (node := self._nodes.get(group)) is None:
                unknown.append(group)
            else:
                grouped.setdefault(node, []).append(group)
        return grouped, unknown

    async def look(self, groups: Collection[str]) -> Mapping[str, int]:
        """Look up the coordinators of these groups. A coordinator that is down stays unknown.

        Returns:
            The groups whose coordinator the brokers refuse to name, with the error codes.
        """
        found = await self._look(groups)
        self.learn(found)
        return found.refused

    def learn(self, found: FoundGroups) -> None:
        """Cache the coordinators that were found.

        Coordinators are cached even if the caller that requested them no longer waits.
        """
        self._nodes.update(found.nodes)
        self._addresses.update(found.addresses)

    def forget(self, groups: Iterable[str]) -> None:
        """Forget the coordinators of the groups, so that they are looked up again."""
        for group in groups:
            self._nodes.pop(group, None)

    def address(self, node: int) -> Address | None:
        """Return the address of a broker."""
        return self._addresses.get(node)
