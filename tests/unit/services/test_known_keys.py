import asyncio
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from app.domain.access.keys import ApiKey, Mode, Scope
from app.domain.catalogue.changes import LastChange
from app.domain.errors import KeyRefusedError, StorageUnavailableError
from app.services.access.known_keys import HELD_BACK_MAX, REFUSED_AFTER, KnownKeys
from app.storage.access.keys import AccessState

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def token(number: int) -> bytes:
    return f"ang_{number:012x}_{'s' * 43}".encode()


def key(number: int) -> ApiKey:
    return ApiKey(
        id=f"{number:012x}",
        name="shop",
        scopes=(Scope.parse("read"),),
        digest=sha256(token(number)).digest(),
    )


class Keys:
    """What the database has; it counts how often it is asked."""

    def __init__(self) -> None:
        self.keys: list[ApiKey] = []
        self.number = 0
        self.asked = 0
        self.down = False
        self.clock = 0.0
        self.pauses: list[float] = []

    async def load(self, last: LastChange | None) -> AccessState | None:
        self.asked += 1
        await asyncio.sleep(0)
        if self.down:
            raise StorageUnavailableError("down")
        current = LastChange(self.number, None)
        if current == last:
            return None
        return AccessState(last=current, mode=Mode.READ_WRITE, keys=self.keys)

    def add(self, added: ApiKey) -> None:
        self.keys.append(added)
        self.number += 1

    def known(self) -> KnownKeys:
        clock, pause = (lambda: self.clock), self.pause
        return KnownKeys(self.load, now=lambda: NOW, clock=clock, pause=pause)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


async def refused(known: KnownKeys, given: bytes) -> bool:
    try:
        await known.caller(given)
    except KeyRefusedError:
        return True
    return False


async def test_a_flood_of_wrong_keys_is_one_question_a_second() -> None:
    stored = Keys()
    known = stored.known()
    await known.refresh()
    for second in range(1, 4):
        stored.clock = float(second)
        answers = await asyncio.gather(*(refused(known, token(n)) for n in range(500)))
        assert all(answers)
    assert stored.asked == 4


async def test_guesses_are_refused_after_a_while_and_right_keys_at_no_time() -> None:
    stored = Keys()
    stored.add(key(1))
    known = stored.known()
    await known.refresh()
    assert await refused(known, token(2))
    assert stored.pauses == [REFUSED_AFTER.total_seconds()]
    await known.caller(token(1))
    assert len(stored.pauses) == 1


async def test_no_more_guesses_are_held_back_than_there_is_room_for() -> None:
    stored = Keys()
    known = stored.known()
    await known.refresh()
    guesses = [refused(known, token(n)) for n in range(HELD_BACK_MAX + 500)]
    assert all(await asyncio.gather(*guesses))
    assert len(stored.pauses) == HELD_BACK_MAX
    assert await refused(known, token(0))
    assert len(stored.pauses) == HELD_BACK_MAX + 1


async def test_a_new_key_is_asked_for_and_a_known_one_is_not() -> None:
    stored = Keys()
    known = stored.known()
    await known.refresh()
    stored.add(key(7))
    stored.clock = 1.0
    callers = await asyncio.gather(*(known.caller(token(7)) for _ in range(5)))
    assert {caller.key_id for caller in callers} == {key(7).id}
    assert stored.asked == 2


async def test_what_is_no_token_is_refused_without_a_question() -> None:
    stored = Keys()
    known = stored.known()
    await known.refresh()
    stored.clock = 1.0
    for given in (b"", b"ang_", token(1)[:-1], token(1) + b"x", b"\xff" * 60):
        assert await refused(known, given)
    assert stored.asked == 1


async def test_another_secret_under_a_known_id_is_refused() -> None:
    stored = Keys()
    stored.add(key(1))
    known = stored.known()
    await known.refresh()
    assert await refused(known, token(1)[:-1] + b"t")
    assert known.known(token(1)) is not None


async def test_known_keys_open_while_the_database_is_down_and_unknown_ones_wait_for_it() -> None:
    stored = Keys()
    stored.add(key(1))
    known = stored.known()
    stored.down = True
    await known.refresh()
    with pytest.raises(StorageUnavailableError):
        await known.caller(token(1))
    stored.down = False
    stored.clock = 2.0
    assert (await known.caller(token(1))).name == "shop"
    stored.down = True
    stored.clock = 4.0
    assert (await known.caller(token(1))).name == "shop"
    assert await refused(known, token(2))


async def test_keys_that_were_used_are_told_once() -> None:
    stored = Keys()
    stored.add(key(1))
    known = stored.known()
    await known.refresh()
    known.known(token(1))
    known.known(token(1))
    assert known.take_used() == {key(1).id}
    assert known.take_used() == set()
