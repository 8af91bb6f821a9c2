from app.domain.message import Partition
from app.log.postgres.assignment import MemberOffer, PartitionSlot, Shares, View, planned

ME, OTHER = 1, 2
A = [PartitionSlot(10, number, "shop.a") for number in range(16)]
B = [PartitionSlot(11, number, "shop.b") for number in range(4)]
ALL = MemberOffer(1.0, frozenset({"shop.a", "shop.b"}))
ONLY_B = MemberOffer(1.0, frozenset({"shop.b"}))


def test_the_only_member_takes_all_that_is_free() -> None:
    view = View({ME: ALL}, dict.fromkeys([*A, *B]))
    plan = planned(view, ME, held=(), revoking=(), shares=Shares())
    assert plan.take == {*A, *B}
    assert not plan.lost
    assert not plan.revoke


def test_a_partition_that_another_holds_is_not_taken() -> None:
    view = View({ME: ALL}, dict.fromkeys(A, OTHER))
    assert not planned(view, ME, held=(), revoking=(), shares=Shares()).take


def test_a_new_member_has_its_share_revoked_and_the_rest_stays() -> None:
    view = View({ME: ALL, OTHER: ALL}, dict.fromkeys(A, ME))
    mine = planned(view, ME, held=A, revoking=(), shares=Shares())
    free = View(view.members, dict.fromkeys(A))
    theirs = planned(free, OTHER, held=(), revoking=(), shares=Shares())
    assert mine.revoke == theirs.take
    assert 0 < len(mine.revoke) < len(A)


def test_what_is_being_revoked_is_not_revoked_again() -> None:
    view = View({ME: ONLY_B, OTHER: ALL}, dict.fromkeys(A, ME))
    assert not planned(view, ME, held=A, revoking=A, shares=Shares()).revoke


def test_a_topic_without_subscription_is_given_up_and_not_taken() -> None:
    held = View({ME: ONLY_B}, dict.fromkeys(A, ME))
    assert planned(held, ME, held=A, revoking=(), shares=Shares()).revoke == set(A)
    free = View({ME: ONLY_B}, dict.fromkeys(A))
    assert not planned(free, ME, held=(), revoking=(), shares=Shares()).take


def test_what_is_gone_or_another_s_is_lost() -> None:
    view = View({ME: ALL, OTHER: ALL}, {A[0]: ME, A[1]: OTHER})
    plan = planned(view, ME, held=A[:3], revoking=[A[2]], shares=Shares())
    assert plan.lost == {A[1], A[2]}


def test_a_topic_created_anew_is_lost_and_taken() -> None:
    anew = PartitionSlot(12, 0, "shop.a")
    plan = planned(View({ME: ALL}, {anew: None}), ME, held=[A[0]], revoking=(), shares=Shares())
    assert plan.lost == {A[0]}
    assert plan.take == {anew}
    assert anew.partition == A[0].partition == Partition("shop.a", 0)


def test_shares_follow_the_members() -> None:
    shares = Shares()
    view = View({ME: ALL, OTHER: ALL}, dict.fromkeys(A))
    some = planned(view, ME, held=(), revoking=(), shares=shares).take
    alone = planned(View({ME: ALL}, view.owners), ME, held=(), revoking=(), shares=shares).take
    assert some < alone == set(A)
