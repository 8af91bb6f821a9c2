"""The owners of keys, by the hash ring and by rendezvous hashing."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import cast

import pytest

from app.log.hash_ring import HashRing
from app.log.rendezvous import rendezvous

KEYS = [f"shop.orders{n // 8}/{n % 8}" for n in range(4_000)]


Owners = Callable[[Mapping[str, float]], dict[str, str]]


def on_the_ring(members: Mapping[str, float]) -> dict[str, str]:
    ring = HashRing(members)
    return {key: ring.owner(key) for key in KEYS}


def by_rendezvous(members: Mapping[str, float]) -> dict[str, str]:
    return {key: rendezvous(members, key) for key in KEYS}


@pytest.fixture(params=[on_the_ring, by_rendezvous])
def owners(request: pytest.FixtureRequest) -> Owners:
    return cast("Owners", request.param)


def test_members_with_equal_capacity_get_about_equal_shares(owners: Owners) -> None:
    shares = Counter(owners({"a": 1, "b": 1, "c": 1, "d": 1}).values())
    assert all(900 <= share <= 1_100 for share in shares.values())


def test_a_member_gets_partitions_in_proportion_to_its_capacity(owners: Owners) -> None:
    shares = Counter(owners({"small": 1, "large": 3}).values())
    assert 2_850 <= shares["large"] <= 3_150


def test_a_new_member_only_takes_and_takes_only_for_itself(owners: Owners) -> None:
    before = owners({"a": 1, "b": 2})
    after = owners({"a": 1, "b": 2, "c": 1})
    assert {after[key] for key in KEYS if after[key] != before[key]} == {"c"}


def test_a_member_that_goes_gives_up_only_what_it_had(owners: Owners) -> None:
    before = owners({"a": 1, "b": 2, "c": 1})
    after = owners({"a": 1, "b": 2})
    assert {before[key] for key in KEYS if after[key] != before[key]} == {"c"}


def test_the_order_of_the_members_does_not_matter(owners: Owners) -> None:
    assert owners({"a": 1, "b": 2}) == owners({"b": 2, "a": 1})


def test_a_member_without_capacity_gets_nothing_while_another_has_some(owners: Owners) -> None:
    assert set(owners({"idle": 0, "busy": 1}).values()) == {"busy"}


def test_the_weights_that_another_program_sends_may_be_tiny_or_huge(owners: Owners) -> None:
    assert set(owners({"tiny": 1e-12}).values()) == {"tiny"}
    assert Counter(owners({"huge": 1e300, "usual": 1}).values())["huge"] > 3_900


def test_nobody_can_own_anything_where_there_is_nobody() -> None:
    with pytest.raises(ValueError, match="members"):
        HashRing({})
    with pytest.raises(ValueError, match="empty"):
        rendezvous({}, "shop.orders/0")


def test_a_new_member_among_many_takes_its_share_and_little_more(owners: Owners) -> None:
    members = {f"worker-{number}": 1.0 for number in range(100)}
    before, after = owners(members), owners(members | {"worker-100": 1.0})
    moved = sum(before[key] != after[key] for key in KEYS)
    assert 0 < moved <= 1.5 * len(KEYS) / 100
