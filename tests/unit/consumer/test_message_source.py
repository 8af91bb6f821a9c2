"""What a message source makes of settings."""

from dataclasses import replace

import pytest

from app.domain.catalogue.fetch import FetchPolicy
from app.domain.catalogue.filters import Filter, FilterType
from app.domain.catalogue.subscription import Ordering, Subscription
from app.filtering.bodies import ParsedBodies
from tests.unit.consumer.test_fetches import Asked
from tests.unit.consumer.test_request_slot import SUBSCRIPTION
from tests.unit.consumer.test_scheduler import Parts
from workers.consumer.defects import Defects
from workers.consumer.source.fetches import Fetches
from workers.consumer.source.message_source import MessageSource


class OnceBroken(Parts):
    """Has no bodies when it is first asked for them."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = 0

    @property
    def bodies(self) -> ParsedBodies:
        self._asked += 1
        if self._asked == 1:
            raise MemoryError
        return ParsedBodies()

    @bodies.setter
    def bodies(self, bodies: ParsedBodies) -> None:
        """Nothing is kept."""


def filtered(subscription: Subscription) -> Subscription:
    return replace(
        subscription, filters=(Filter(type=FilterType.JSONPATH, path="$.n", matcher=".*"),)
    )


async def test_filters_that_could_not_be_compiled_are_compiled_when_it_is_configured_again() -> (
    None
):
    source = MessageSource(
        OnceBroken(), Fetches(Asked(), FetchPolicy()), lambda: None, defects=Defects("g")
    )
    wanted = filtered(SUBSCRIPTION)
    source.configure(wanted)
    assert source.is_broken
    source.configure(wanted)
    assert not source.is_broken


class OnceUnordered:
    """`KEY`, which cannot be told from others at first."""

    def __init__(self) -> None:
        self._asked = 0

    def __eq__(self, other: object) -> bool:
        self._asked += 1
        if self._asked == 1:
            raise MemoryError
        return other is Ordering.KEY

    def __ne__(self, other: object) -> bool:
        return other is not self

    def __hash__(self) -> int:
        return hash(Ordering.KEY)


async def test_an_order_that_could_not_be_made_is_made_when_it_is_configured_again() -> None:
    source = MessageSource(
        Parts(), Fetches(Asked(), FetchPolicy()), lambda: None, defects=Defects("g")
    )
    wanted = replace(SUBSCRIPTION)
    object.__setattr__(wanted, "ordering", OnceUnordered())
    with pytest.raises(MemoryError):
        source.configure(wanted)
    source.configure(wanted)
    assert source.is_ordered
