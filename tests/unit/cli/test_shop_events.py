import json
from collections import Counter

import pytest

from app.cli.commands.demo.events import REFUSED_TYPE, shop_events


def test_the_same_seed_gives_the_same_stream() -> None:
    assert list(shop_events(200, seed=5)) == list(shop_events(200, seed=5))


def test_another_seed_gives_another_stream() -> None:
    assert list(shop_events(200, seed=5)) != list(shop_events(200, seed=6))


def test_every_event_is_json_that_names_its_type_place_and_customer() -> None:
    for event in shop_events(200, seed=1):
        content = json.loads(event.body)
        assert content["event"] == event.type
        assert content["sequence"] == event.sequence
        assert content["customer"] == event.key


def test_events_are_numbered_from_zero_without_a_hole() -> None:
    assert [event.sequence for event in shop_events(50, seed=1)] == list(range(50))


def test_bodies_vary_in_size_and_none_is_larger_than_a_small_topic_allows() -> None:
    sizes = [len(event.body) for event in shop_events(1000, seed=1)]
    assert max(sizes) > 10 * min(sizes)
    assert max(sizes) < 10_240


@pytest.mark.parametrize("count", [20, 100, 1000])
def test_one_in_twenty_is_of_the_type_that_is_refused(count: int) -> None:
    types = Counter(event.type for event in shop_events(count, seed=1))
    assert types[REFUSED_TYPE] == count // 20


def test_customers_share_partitions_but_not_all_one() -> None:
    keys = Counter(event.key for event in shop_events(1000, seed=1))
    assert len(keys) > 100
    assert keys.most_common(1)[0][1] > 1
