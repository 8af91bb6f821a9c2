"""Which broker coordinates which group, and where it is, as the event loop knows it."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from app.log.kafka.link import Address


class FoundGroups(NamedTuple):
    """The coordinators of the groups that have one now, and all brokers."""

    nodes: Mapping[str, int]
    addresses: Mapping[int, Address]


LookForGroups = Callable[[Collection[str]], Awaitable[FoundGroups]]
"""Asks anew for groups by their full names. Raises one of FAILED_TRY, LogUnavailableError."""


class Coordinators:
    """Looks groups up, and keeps what it was told until that turns out to be wrong."""

    def __init__(self, look: LookForGroups) -> None:
        self._look = look
        self._nodes: dict[str, int] = {}
        self._addresses: dict[int, Address] = {}

    async def grouped(self, groups: Collection[str]) -> Mapping[int, list[str]]:
        """Groups by their coordinator; one whose coordinator is not up is left out."""
        if missing := [group for group in groups if group not in self._nodes]:
            found = await self._look(missing)
            self._nodes.update(found.nodes)
            self._addresses.update(found.addresses)
        grouped: dict[int, list[str]] = {}
        for group in groups:
            if (node := self._nodes.get(group)) is not None:
                grouped.setdefault(node, []).append(group)
        return grouped

    def forget(self, groups: Iterable[str]) -> None:
        """Ask anew for their coordinators next time."""
        for group in groups:
            self._nodes.pop(group, None)

    def address(self, node: int) -> Address | None:
        """Where a broker is."""
        return self._addresses.get(node)
