"""Which broker coordinates which group, and where it is, as the event loop knows it."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from kafka import errors

from app.log.kafka.bridge import Untyped
from app.log.kafka.link import Address


class FoundGroups(NamedTuple):
    """The coordinators of the groups that have one now, and where these are.

    `refused`: the groups that the brokers will not say it of, with the error code.
    """

    nodes: Mapping[str, int]
    addresses: Mapping[int, Address]
    refused: Mapping[str, int]


LookForGroups = Callable[[Collection[str]], Awaitable[FoundGroups]]
"""Asks anew for groups by their full names. Raises one of FAILED_TRY, LogUnavailableError."""


def found_groups(said: Iterable[Untyped]) -> FoundGroups:
    """What brokers said of each group. An error that may pass is as if they had said nothing."""
    nodes: dict[str, int] = {}
    addresses: dict[int, Address] = {}
    refused: dict[str, int] = {}
    for each in said:
        if each.error_code == 0:
            nodes[each.key] = each.node_id
            # As it is now: what is known from elsewhere may be from before the broker moved.
            addresses[each.node_id] = (each.host, each.port)
        elif not errors.for_code(each.error_code).retriable:
            refused[each.key] = each.error_code
    return FoundGroups(nodes, addresses, refused)


class Coordinators:
    """Looks groups up, and keeps what it was told until that turns out to be wrong."""

    def __init__(self, look: LookForGroups) -> None:
        self._look = look
        self._nodes: dict[str, int] = {}
        self._addresses: dict[int, Address] = {}

    def grouped(self, groups: Iterable[str]) -> tuple[Mapping[int, list[str]], list[str]]:
        """Groups by their coordinator, and those of which it is not known."""
        grouped: dict[int, list[str]] = {}
        unknown: list[str] = []
        for group in groups:
            if (node := self._nodes.get(group)) is None:
                unknown.append(group)
            else:
                grouped.setdefault(node, []).append(group)
        return grouped, unknown

    async def look(self, groups: Collection[str]) -> Mapping[str, int]:
        """Have them known, but those whose coordinator is not up.

        Returns the error codes of those that are refused.
        """
        found = await self._look(groups)
        self.learn(found)
        return found.refused

    def learn(self, found: FoundGroups) -> None:
        """Take over what was found, maybe for somebody who did not wait for it."""
        self._nodes.update(found.nodes)
        self._addresses.update(found.addresses)

    def forget(self, groups: Iterable[str]) -> None:
        """Ask anew for their coordinators next time."""
        for group in groups:
            self._nodes.pop(group, None)

    def address(self, node: int) -> Address | None:
        """Where a broker is."""
        return self._addresses.get(node)
