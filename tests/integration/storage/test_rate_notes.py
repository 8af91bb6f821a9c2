from datetime import timedelta

from sqlalchemy import text

from app.domain.runtime.rate_sharing import Loan, RateNote
from app.storage.database import Database
from app.storage.runtime.rate_notes import ROWS_MAX, RateNoteRepository

TICKETS = (1 << 200) - 1


def a_note(worker_id: str, subscription_id: str = "s-1", *, number: int = 1) -> RateNote:
    return RateNote(
        subscription_id=subscription_id,
        worker_id=worker_id,
        partitions=9,
        number=number,
        wanted=17,
        lent={"w-9": Loan(3, 0b101, TICKETS), "w-8": Loan(4, 0, 0)},
        followed={"w-7": 12},
    )


async def test_a_worker_reads_the_last_notes_of_all_others(database: Database) -> None:
    async with database.transaction() as session:
        notes = RateNoteRepository(session)
        await notes.write([a_note("w-1"), a_note("w-1", "s-2")])
        await notes.write([a_note("w-2", number=5)])
        await notes.write([a_note("w-1", number=2)])
        assert sorted(await notes.others("w-2"), key=lambda note: note.subscription_id) == [
            a_note("w-1", number=2),
            a_note("w-1", "s-2"),
        ]
        assert await notes.others("w-1") == [a_note("w-2", number=5)]


async def test_a_worker_drops_its_own_notes_alone(database: Database) -> None:
    async with database.transaction() as session:
        notes = RateNoteRepository(session)
        await notes.write([a_note("w-1"), a_note("w-1", "s-2"), a_note("w-2")])
        await notes.drop("w-1", ["s-1", "never said"])
        left = await notes.others("w-3")
        assert {(note.worker_id, note.subscription_id) for note in left} == {
            ("w-1", "s-2"),
            ("w-2", "s-1"),
        }


async def test_notes_of_the_long_dead_are_not_read_and_dropped_later(database: Database) -> None:
    async with database.transaction() as session:
        notes = RateNoteRepository(session)
        await notes.write([a_note("w-1"), a_note("w-2")])
        await session.execute(
            text("UPDATE rate_notes SET seen_at = now() - interval '2 min' WHERE worker_id = 'w-2'")
        )
        assert await notes.others("w-3") == [a_note("w-1")]
        await notes.prune(timedelta(minutes=1))
        assert await session.scalar(text("SELECT count(*) FROM rate_notes")) == 1


async def test_more_notes_than_fit_one_statement_are_all_said(database: Database) -> None:
    async with database.transaction() as session:
        notes = RateNoteRepository(session)
        await notes.write([a_note("w-1", f"s-{index}") for index in range(ROWS_MAX + 1)])
        assert len(await notes.others("w-2")) == ROWS_MAX + 1


async def test_saying_nothing_is_fine(database: Database) -> None:
    async with database.transaction() as session:
        await RateNoteRepository(session).write([])
