"""Where acknowledged messages can be lost."""

import pytest

from app.domain.durability import NAMED_MAX, Copies, Replication, risks


@pytest.mark.parametrize(
    ("replication", "replicas", "in_sync"),
    [
        (Replication(1), None, 1),
        (Replication(2), None, 1),
        (Replication(3), None, 2),
        (Replication(3, 3), None, 3),
        (Replication(3, 1), None, 1),
        (Replication(3), 1, 1),
        (Replication(3, 3), 2, 2),
        (Replication(1), 3, 2),
    ],
)
def test_all_but_one_replica_must_be_in_sync_unless_a_setting_says_how_many(
    replication: Replication, replicas: int | None, in_sync: int
) -> None:
    assert replication.in_sync(replicas) == in_sync


@pytest.mark.parametrize(
    ("replication", "by_leader", "said"),
    [
        (Replication(3), [], []),
        (Replication(1), [], ["ANGELIA_REPLICATION_FACTOR is 1"]),
        (Replication(2), [], ["min.insync.replicas of new topics is 1, of 2"]),
        (Replication(3, 1), [], ["min.insync.replicas of new topics is 1, of 3"]),
        (Replication(3), ["shop.a", "shop.b"], ["LEADER: what only", "shop.a, shop.b"]),
    ],
)
def test_what_can_be_lost_is_said(
    replication: Replication, by_leader: list[str], said: list[str]
) -> None:
    found = list(risks(replication, by_leader=by_leader, there={}, with_names=True))
    assert bool(found) is bool(said)
    assert all(part.partition(":")[0] in " ".join(found) for part in said)


def test_of_many_topics_the_first_are_named_and_the_rest_counted() -> None:
    names = [f"shop.t{number:02}" for number in range(NAMED_MAX + 3)]
    (said,) = risks(Replication(3), by_leader=names, there={}, with_names=True)
    assert said.endswith(f"{names[NAMED_MAX - 1]} and 3 more")


def test_topics_that_were_made_earlier_are_counted_and_named_by_what_they_have() -> None:
    there = {
        "shop.sound": Copies(3, 2),
        "shop.unknown": Copies(3),
        "shop.loose": Copies(3, 1),
        "shop.b": Copies(1, 1),
        "shop.a": Copies(1),
        "shop.made": Copies(0),
    }
    single, loose = risks(Replication(3), by_leader=(), there=there, with_names=True)
    assert single.startswith("2 of 6 topics in Kafka have one replica: ")
    assert single.endswith(": shop.a, shop.b")
    assert loose.startswith("1 of 6 topics in Kafka have min.insync.replicas 1: ")
    assert loose.endswith(": shop.loose")


def test_topics_are_counted_without_their_names_for_everybody() -> None:
    there = {"shop.loose": Copies(3, 1), "shop.old": Copies(1)}
    found = list(risks(Replication(3), by_leader=["shop.fast"], there=there, with_names=False))
    assert len(found) == 3
    assert not [said for said in found if "shop." in said]
