"""Writers who change one subscription at once, each what it has read: nobody's change is lost."""

import asyncio
import random
from dataclasses import dataclass, field

import httpx
import pytest

from app.log.interface import MessageLog

PATH = "/topics/shop.orders/subscriptions"
MINE = f"{PATH}/billing"
BODY = {"name": "billing", "endpoint": "http://h.test/"}
WRITERS = 3
ROUNDS = 12


@pytest.fixture
def log(real_log: MessageLog) -> MessageLog:
    """The embedded log, and a real Kafka: a subscription that is made again begins at its end."""
    return real_log


@dataclass(slots=True)
class History:
    """The changes that were made: the tag each was made for, and the tag it led to."""

    followed_by: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    refused: int = 0

    def changed(self, before: str, after: str, state: str) -> None:
        assert before not in self.followed_by, "two changes were made of one state"
        self.followed_by[before] = after
        self.states[after] = state


async def read_by(api: httpx.AsyncClient) -> httpx.Response:
    """What there is. On a busy machine, PostgreSQL may not answer in time."""
    while (read := await api.get(MINE)).status_code == 503:
        pass
    return read


async def write(api: httpx.AsyncClient, history: History, dice: random.Random) -> None:
    for _ in range(ROUNDS):
        read = await read_by(api)
        if read.status_code == 400:
            assert read.json()["code"] == "SUBSCRIPTION_NOT_EXISTS"
            await create(api, history)
            continue
        tag = read.headers["ETag"]
        match dice.choice(["state", "state", "rate", "delete"]):
            case "state":
                await flip(api, history, read)
            case "rate":
                patch = {"subscriptionPolicy": {"rate": dice.randint(1, 1_000_000)}}
                answer = await api.put(MINE, json=patch, headers={"If-Match": tag})
                note(history, tag, answer)
            case _:
                answer = await api.delete(MINE, headers={"If-Match": tag})
                if answer.status_code == 200:
                    history.changed(tag, f"after {tag}", "gone")
                else:
                    refused(history, answer)


async def create(api: httpx.AsyncClient, history: History) -> None:
    made = await api.post(PATH, json=BODY)
    if made.status_code == 201:
        history.states[made.headers["ETag"]] = "created"
    else:
        assert made.json()["code"] in {"SUBSCRIPTION_ALREADY_EXISTS", "STORAGE_UNAVAILABLE"}


async def flip(api: httpx.AsyncClient, history: History, read: httpx.Response) -> None:
    state = "ACTIVE" if read.json()["state"] == "SUSPENDED" else "SUSPENDED"
    tag = read.headers["ETag"]
    answer = await api.put(f"{MINE}/state", json=state, headers={"If-Match": tag})
    note(history, tag, answer)
    if answer.status_code == 200:
        assert answer.json()["state"] in ({"SUSPENDED"} if state == "SUSPENDED" else {"ACTIVE"})


def note(history: History, tag: str, answer: httpx.Response) -> None:
    if answer.status_code == 200:
        history.changed(tag, answer.headers["ETag"], answer.json()["state"])
    else:
        refused(history, answer)


def refused(history: History, answer: httpx.Response) -> None:
    """Somebody was faster: changed it, or deleted it. Or PostgreSQL did not answer in time."""
    code = answer.json()["code"]
    assert (answer.status_code, code) in {
        (412, "PRECONDITION_FAILED"),
        (400, "SUBSCRIPTION_NOT_EXISTS"),
        (503, "STORAGE_UNAVAILABLE"),
    }
    history.refused += 1


async def test_changes_of_one_subscription_follow_each_other(
    api: httpx.AsyncClient, topic: str
) -> None:
    assert topic
    history, dice = History(), random.Random(7)
    await create(api, history)
    await asyncio.gather(
        *(write(api, history, random.Random(dice.random())) for _ in range(WRITERS))
    )
    assert history.refused, "they were never in each other's way"
    # Numbers only grow, also over a deletion: no tag ever comes again.
    tags = [tag for tag in history.states if tag.startswith('"')]
    assert len(set(tags)) == len(tags)
    assert all(number(before) < number(after) for before, after in history.followed_by.items())
    # What is there now is what the last change led to.
    last = max(history.states, key=number)
    now = await read_by(api)
    if history.states[last] == "gone":
        assert now.json()["code"] == "SUBSCRIPTION_NOT_EXISTS"
    else:
        assert now.headers["ETag"] == last


def number(tag: str) -> float:
    """That of a change; a deletion comes right after what it deleted."""
    gone = tag.startswith("after ")
    return float(tag.removeprefix("after ").strip('"')) + (0.5 if gone else 0.0)
