"""Sharing out partitions: what each member has after a round of the group."""

import json
from types import SimpleNamespace

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from app.domain.message import Partition
from app.log.kafka.assignor import (
    Candidate,
    HashRingAssignor,
    candidates_of,
    is_readable,
    share_out,
)

TOPICS = {"orders": range(40), "events": range(8)}
ORDERS = frozenset(Partition("orders", n) for n in range(40))
EVENTS = frozenset(Partition("events", n) for n in range(8))


def a_member(
    name: str,
    *,
    owned: frozenset[Partition] = frozenset(),
    topics: frozenset[str] = frozenset(TOPICS),
    capacity: float = 1.0,
) -> Candidate:
    return Candidate(id=f"id-{name}", name=name, capacity=capacity, topics=topics, owned=owned)


def test_partitions_that_nobody_holds_are_all_given_out_once() -> None:
    shares = share_out([a_member("a"), a_member("b"), a_member("c")], TOPICS)
    assert all(shares.values())
    assert frozenset().union(*shares.values()) == ORDERS | EVENTS
    assert sum(map(len, shares.values())) == 48


def test_a_partition_moves_only_after_its_holder_gave_it_up() -> None:
    before = a_member("a", owned=ORDERS | EVENTS)
    first = share_out([before, a_member("b")], TOPICS)
    assert first["id-a"] < before.owned
    assert not first["id-b"]
    second = share_out([a_member("a", owned=first["id-a"]), a_member("b")], TOPICS)
    assert second["id-a"] == first["id-a"]
    assert second["id-b"] == before.owned - first["id-a"]


def test_what_a_dead_member_held_is_given_out_at_once() -> None:
    two = share_out([a_member("a"), a_member("b")], TOPICS)
    alone = share_out([a_member("a", owned=two["id-a"])], TOPICS)
    assert alone["id-a"] == ORDERS | EVENTS


def test_a_partition_that_two_claim_goes_to_neither_until_the_loser_gave_it_up() -> None:
    claimed = Partition("orders", 0)
    a = a_member("a", owned=frozenset({claimed}))
    b = a_member("b", owned=frozenset({claimed}))
    shares = share_out([a, b], TOPICS)
    assert claimed not in shares["id-a"] | shares["id-b"]


def test_members_only_get_topics_they_subscribe_to() -> None:
    only_events = a_member("b", topics=frozenset({"events"}))
    nothing = a_member("c", topics=frozenset())
    shares = share_out([a_member("a"), only_events, nothing], TOPICS)
    assert shares["id-a"] >= ORDERS
    assert shares["id-a"] | shares["id-b"] == ORDERS | EVENTS
    assert not shares["id-c"]


def test_a_topic_that_nobody_wants_is_left_alone() -> None:
    shares = share_out([a_member("a", topics=frozenset({"events"}))], TOPICS)
    assert shares == {"id-a": EVENTS}


def test_the_shares_do_not_depend_on_the_order_of_the_members() -> None:
    members = [a_member("a"), a_member("b", capacity=2), a_member("c")]
    assert share_out(members, TOPICS) == share_out(members[::-1], TOPICS)


def test_twenty_thousand_partitions_are_shared_out_in_proportion() -> None:
    topics = {f"t{n}": range(20) for n in range(1000)}
    names = frozenset(topics)
    members = [a_member(n, topics=names, capacity=c) for n, c in (("a", 1), ("b", 1), ("c", 2))]
    shares = share_out(members, topics)
    assert abs(len(shares["id-a"]) - 5_000) < 300
    assert abs(len(shares["id-c"]) - 10_000) < 500


def told(member_id: str, name: str) -> SimpleNamespace:
    """A member as Kafka lists it to the group's leader."""
    return SimpleNamespace(
        member_id=member_id,
        metadata=SimpleNamespace(
            user_data=json.dumps({"member": name, "capacity": 2.0}).encode(),
            topics=["orders"],
            owned_partitions=[SimpleNamespace(topic="orders", partitions=[3, 4])],
        ),
    )


def test_a_member_keeps_its_share_when_it_joins_anew_under_its_name() -> None:
    (before,), (after,) = candidates_of([told("id-1", "w")]), candidates_of([told("id-2", "w")])
    assert before.name == after.name == "w"
    assert before.owned == {Partition("orders", 3), Partition("orders", 4)}
    assert before.capacity == 2.0
    assert before.topics == {"orders"}


def test_two_members_of_one_name_both_get_a_share() -> None:
    one, two = candidates_of([told("id-1", "w"), told("id-2", "w")])
    shares = share_out(
        [a_member(one.name), a_member(two.name)],
        TOPICS,
    )
    assert one.name != two.name
    assert all(shares.values())


def sent(metadata: bytes) -> SimpleNamespace:
    """A member whose bytes nobody has read yet."""
    return SimpleNamespace(member_id="id-1", metadata=metadata)


def sent_with(user_data: bytes | None) -> SimpleNamespace:
    topics = ConsumerProtocolSubscription(
        version=1, topics=["orders"], user_data=user_data, owned_partitions=[]
    )
    return sent(topics.encode())


def test_what_a_worker_sends_is_readable() -> None:
    ours = HashRingAssignor("w", 2.0, lambda: [Partition("orders", 3)]).metadata(["orders"])
    assert is_readable(sent(ours.encode()))


@pytest.mark.parametrize(
    "user_data",
    [
        None,
        b"",
        b"\xff\xfe",
        b"[]",
        b"[" * 100_000,
        b'{"member": "w"}',
        b'{"member": [], "capacity": 1}',
        b'{"member": "w", "capacity": null}',
        b'{"member": "w", "capacity": NaN}',
        b'{"member": "w", "capacity": -1}',
    ],
)
def test_what_another_program_sends_beside_its_topics_is_not_readable(
    user_data: bytes | None,
) -> None:
    assert not is_readable(sent_with(user_data))


@pytest.mark.parametrize("metadata", [b"", b"\xff" * 9, b"\x00\x01\x7f\xff\xff\xff"])
def test_bytes_that_are_no_metadata_are_not_readable(metadata: bytes) -> None:
    assert not is_readable(sent(metadata))
