from collections import Counter

import pytest

from app.log.hash_ring import HashRing

KEYS = [f"shop.orders{n // 8}/{n % 8}" for n in range(4_000)]


def owners(members: dict[str, float]) -> dict[str, str]:
    ring = HashRing(members)
    return {key: ring.owner(key) for key in KEYS}


def test_members_with_equal_capacity_get_about_equal_shares() -> None:
    shares = Counter(owners({"a": 1, "b": 1, "c": 1, "d": 1}).values())
    assert all(900 <= share <= 1_100 for share in shares.values())


def test_a_member_gets_partitions_in_proportion_to_its_capacity() -> None:
    shares = Counter(owners({"small": 1, "large": 3}).values())
    assert 2_850 <= shares["large"] <= 3_150


def test_a_new_member_only_takes_and_takes_only_for_itself() -> None:
    before = owners({"a": 1, "b": 2})
    after = owners({"a": 1, "b": 2, "c": 1})
    assert {after[key] for key in KEYS if after[key] != before[key]} == {"c"}


def test_a_member_that_goes_gives_up_only_what_it_had() -> None:
    before = owners({"a": 1, "b": 2, "c": 1})
    after = owners({"a": 1, "b": 2})
    assert {before[key] for key in KEYS if after[key] != before[key]} == {"c"}


def test_the_order_of_the_members_does_not_matter() -> None:
    assert owners({"a": 1, "b": 2}) == owners({"b": 2, "a": 1})


def test_a_member_without_capacity_gets_nothing_while_another_has_some() -> None:
    assert set(owners({"idle": 0, "busy": 1}).values()) == {"busy"}


def test_the_weights_that_another_program_sends_may_be_tiny_or_huge() -> None:
    assert set(owners({"tiny": 1e-12}).values()) == {"tiny"}
    assert Counter(owners({"huge": 1e300, "usual": 1}).values())["huge"] > 3_900


def test_nobody_can_own_anything_where_there_is_nobody() -> None:
    with pytest.raises(ValueError, match="members"):
        HashRing({})


def test_a_new_member_among_many_takes_its_share_and_little_more() -> None:
    members = {f"worker-{number}": 1.0 for number in range(100)}
    before, after = owners(members), owners(members | {"worker-100": 1.0})
    moved = sum(before[key] != after[key] for key in KEYS)
    assert 0 < moved <= 1.5 * len(KEYS) / 100
