"""Tickets that are lent while their partition moves: nobody uses one within a second of another."""

from app.domain.runtime.rate_sharing import RateNote
from workers.assignment.negotiation import OVER_S, Negotiation
from workers.assignment.sharing_round import SharingRound
from workers.delivery.rate import WINDOW_S
from workers.delivery.tickets import lowest, tickets_of

PARTITIONS = 4
LIMIT = 400.0
ALL_S = 20.0
# Of the partition that moves; its owner keeps a few of the others.
MOVED = lowest(tickets_of(frozenset({1}), PARTITIONS), 40)


class Worker:
    """One of those who share; it needs `need` requests per second."""

    def __init__(self, name: str, owned: set[int], *, need: float = 0.0) -> None:
        self.name = name
        self.need = need
        self.written_at: dict[int, float] = {}
        self.read_at = 0.0
        self.assigned_at: dict[int, float] = {}
        self.negotiation = Negotiation("s", name)
        self.negotiation.configure(LIMIT, PARTITIONS)
        self.own(owned, -ALL_S)

    def own(self, indexes: set[int], now: float) -> None:
        """These partitions and no others, from now on."""
        self.assigned_at = {index: self.assigned_at.get(index, now) for index in indexes}
        self.negotiation.own(self.assigned_at, verified=self.read_at)

    def run_round(self, notes: dict[str, RateNote], now: float) -> None:
        """A round that takes no time."""
        others = [note for note in notes.values() if note.worker_id != self.name]
        self.read_at = now
        sharing_round = SharingRound(len(self.written_at) + 1, now, self.written_at)
        self.negotiation.read_notes(others, sharing_round, verified=now)
        self.negotiation.need(self.need)
        note = self.negotiation.decide(others, sharing_round)
        self.written_at[sharing_round.number] = now
        notes.pop(self.name, None)
        notes |= {self.name: note} if note else {}

    def uses_moved(self, now: float) -> bool:
        """Whether it may use some of the tickets of the partition that moves."""
        return bool(self.negotiation.share(now).held(now)[0] & MOVED)


def talk_in_turn(workers: list[Worker], notes: dict[str, RateNote], *, until: int) -> None:
    """A round of all in each second before `until`, in this order."""
    for second in range(until):
        for late, worker in enumerate(workers):
            worker.run_round(notes, second + late / 10)


def test_a_new_owner_leaves_alone_what_was_given_back_less_than_a_second_ago() -> None:
    notes: dict[str, RateNote] = {}
    borrower = Worker("borrower", {2}, need=LIMIT)
    before, after = Worker("before", {0, 1}), Worker("after", {3})
    talk_in_turn([borrower, before, after], notes, until=10)
    assert borrower.uses_moved(10)

    before.own({0}, 10)
    after.own({1, 3}, 10)
    borrower.run_round(notes, 10.1)
    before.run_round(notes, 10.2)
    # Hears that it has less, and says so; what it had is free, but not before a second is over.
    borrower.run_round(notes, 10.9)
    before.run_round(notes, 11.0)
    assert not borrower.uses_moved(10.9)
    after.run_round(notes, 11.1)
    assert not after.uses_moved(10.9 + WINDOW_S - 0.01)
    assert after.uses_moved(11.1 + OVER_S)


def test_what_nobody_could_read_is_not_lent_by_who_owns_it_no_more() -> None:
    notes: dict[str, RateNote] = {}
    borrower = Worker("borrower", {2}, need=LIMIT)
    before, after = Worker("before", {0, 1}), Worker("after", {3})
    talk_in_turn([borrower, after], notes, until=10)
    for tenth in range(3):
        before.run_round({}, 10 + tenth / 10)
    # Its write fails, and so others do not hear that it lends.
    before.run_round(dict(notes), 10.3)
    assert not before.uses_moved(10.3)

    before.own({0}, 10.4)
    after.own({1, 3}, 10.4)
    after.run_round(notes, 10.5)
    assert after.uses_moved(11.5)
    before.run_round(notes, 11.5)
    borrower.run_round(notes, 11.6)
    assert not borrower.uses_moved(11.6 + WINDOW_S)
    # Nor when it owns it again.
    after.own({3}, 11.7)
    before.own({0, 1}, 11.7)
    before.run_round(notes, 11.8)
    borrower.run_round(notes, 11.9)
    assert not borrower.uses_moved(11.9 + WINDOW_S)


def test_a_loan_of_what_one_owned_since_does_not_go_on_when_it_is_owned_no_more() -> None:
    notes: dict[str, RateNote] = {}
    heir, next_heir = Worker("heir", {2}, need=LIMIT), Worker("next", {3})
    dead = Worker("dead", {0, 1})
    talk_in_turn([heir, dead, next_heir], notes, until=10)
    assert heir.uses_moved(10)

    heir.own({1, 2}, 10)
    heir.need, next_heir.need = 0.0, LIMIT
    for tenth in range(3):
        heir.run_round(notes, 10.1 + tenth / 10)
    next_heir.run_round(notes, 10.4)
    assert heir.uses_moved(11.1)
    # Lends them to the next, who could use them in a second.
    heir.run_round(notes, 11.2)
    assert not heir.uses_moved(11.2)
    next_heir.run_round(notes, 11.3)
    assert next_heir.uses_moved(12.4)
    heir.own({2}, 11.4)
    assert not heir.uses_moved(11.4)
    assert not heir.uses_moved(12.4)


def test_a_loan_that_is_heard_of_by_its_owner_is_of_no_use_later_either() -> None:
    notes: dict[str, RateNote] = {}
    heir, dead = Worker("heir", {2}, need=LIMIT), Worker("dead", {0, 1})
    talk_in_turn([heir, dead, Worker("next", {3})], notes, until=9)
    heir.own({1, 2}, 9)
    # What the dead one said last is heard only now.
    heir.run_round(notes, 9.1)
    heir.own({2}, 9.2)
    assert not heir.uses_moved(9.2)
    assert not heir.uses_moved(10.2)
