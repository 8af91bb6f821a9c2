"""What workers and Spark runners report, on pages: pings, retransmissions and ledger entries."""

import asyncio
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from sqlalchemy import update

from app.domain.commit import Progress
from app.domain.message import NewRecord
from app.domain.replay.retransmission import RetransmissionState
from app.domain.runtime.ping import Pong, Security, ping_in
from app.log.interface import Committed
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.notices import PINGS, Notices, listen
from app.storage.replay.sending import SendingRepository
from app.storage.runtime.pings import notify_pong
from app.storage.tables import LedgerEntryRow
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.console.browser import PATIENCE_S, Browser, Seen, following
from tests.integration.api.insight.test_ledgers import made
from tests.integration.api.replay.test_retransmissions import LEASE, chosen
from tests.integration.storage.builders import a_worker, beat

SUBSCRIPTION = "/topics/shop.orders/subscriptions/billing"
HOSTILE = "<script>alert(1)</script>\u202e"
DELIVERED = Pong(
    worker="w-1",
    message_id="m",
    delivered=True,
    seconds=0.0123,
    status=201,
    address="192.0.2.7:443",
    tls=Security(version="TLSv1.3", cipher="TLS_AES_256_GCM_SHA384"),
)
REFUSED = Pong(
    worker="w-1",
    message_id="m",
    delivered=False,
    seconds=1.5,
    status=503,
    reason=f"answered with 503 {HOSTILE}",
    headers=(("Server", HOSTILE),),
)
UNREACHABLE = Pong(worker="w-1", message_id="m", delivered=False, seconds=30.0, reason="timeout")


class Worker:
    """A worker that answers one ping, by hand."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._heard: list[str] = []

    def receive(self, payload: str) -> None:
        self._heard.append(payload)

    async def answer(self, pong: Pong, notices: Notices) -> None:
        while not self._heard:
            await notices.wait(timedelta(seconds=PATIENCE_S))
        ping = ping_in(self._heard[0])
        assert ping is not None
        async with self._database.transaction() as session:
            await notify_pong(session, ping, pong)


@for_each(
    ("pong", "tone", "words"),
    [
        (
            DELIVERED,
            "card good",
            "A message would be delivered. It took 12 ms, at 192.0.2.7:443, by TLSv1.3.",
        ),
        (
            REFUSED,
            "card bad",
            "A message would not be delivered: answered with 503 &lt;script&gt;alert(1)&lt;/",
        ),
        (
            UNREACHABLE,
            "card bad",
            "A message would not be delivered: timeout It took 30 s.",
        ),
    ],
)
async def test_the_answer_to_a_ping_is_shown_on_the_page(
    browser: Browser, database: Database, postgres_url: str, topic: str, *, pong: Pong, tone: str,
    words: str,
) -> None:  # fmt: skip
    # One ping a second is sent to a subscription: each case has its own.
    name = f"answers-{pong.status}"
    # The service waits for as long as a slow endpoint may take, and longer than a busy machine.
    policy = {"requestTimeout": 30_000}
    body = {"name": name, "endpoint": "http://subscriber.test/", "subscriptionPolicy": policy}
    made = await browser.http.post(f"/topics/{topic}/subscriptions", json=body)
    made.raise_for_status()
    page = await pinged(
        browser, database, postgres_url, path=f"/topics/{topic}/subscriptions/{name}", pong=pong
    )
    assert f"The endpoint answered {pong.status or 'nothing'} {words}" in page.words
    assert [each["class"] for _, each in page.tags if each.get("role") == "status"] == [tone]
    assert HOSTILE not in page.text
    assert ("Server" in page.words) is bool(pong.headers)


async def pinged(browser: Browser, database: Database, url: str, *, path: str, pong: Pong) -> Seen:
    """The page of a subscription after its button was pressed, and a worker answered so."""
    await beat(database, a_worker("w-1"))
    worker = Worker(database)
    async with (
        listen(url, [PINGS], receive=worker.receive) as notices,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(worker.answer(pong, notices))
        return await browser.send(path, f"{path.rpartition('/')[2]}/ping")


@pytest.mark.usefixtures("subscription")
async def test_the_page_follows_a_retransmission_from_its_request_to_its_end(
    browser: Browser, api: httpx.AsyncClient, database: Database
) -> None:
    asked = {"only": "all", "from": "-6h", "do": "send"}
    sent = await browser.send(f"{SUBSCRIPTION}/resend", **asked)
    assert "It is requested. This page shows how far it is." in sent.words
    async with following(api, f"/console{SUBSCRIPTION}/resend") as page:
        assert "requested</span>" in await page.until("No Spark runner is live")
        await chosen(database, 200)
        async with database.transaction() as session:
            repository = SendingRepository(session, "w-1")
            sending = await repository.take(LEASE)
            assert sending is not None
            await repository.keep(sending, finished=50, lease=LEASE)
        under_way = await page.until("50 of 200 finished, about 3.0 s left")
        assert "sending</span>" in under_way
        assert "Cancel" in under_way
        async with database.transaction() as session:
            repository = SendingRepository(session, "w-1")
            await repository.keep(sending, finished=200, lease=LEASE)
            await repository.end(sending, RetransmissionState.DONE, None)
        ended = await page.until("200 of 200 finished")
        assert "done</span>" in ended
        assert "Cancel" not in ended


async def test_a_ledger_names_what_is_missing_and_leads_to_sending_it_again(
    browser: Browser, database: Database, log: MemoryLog, subscription: str
) -> None:
    partition = await two_missing(database, log)
    await browser.send(f"{SUBSCRIPTION}/ledger", "ledger/request")
    await made(database)
    page = await browser.look(f"{SUBSCRIPTION}/ledger")
    assert "2 messages are missing: passed, and neither delivered nor recorded." in page.words
    assert f"Where partition {partition}, offsets 0 to 2" in page.words
    assert "No entry was changed or removed, and all are signed." in page.words
    [entry] = (await browser.http.get(f"{subscription}/ledger")).json()["entries"]
    assert f"Keep this hash elsewhere, to check it later: {entry['hash']}" in page.words
    [again] = [link for link in page.attributes("a", "href") if "only=missing" in link]
    asked = parse_qs(urlsplit(again).query)
    assert (asked["from"], asked["to"]) == ([entry["from"]], [entry["to"]])
    form = await browser.look(f"{SUBSCRIPTION}/resend?{urlsplit(again).query}")
    assert "<option selected>missing</option>" in form.text
    assert {entry["from"], entry["to"]} <= set(form.attributes("input", "value"))
    async with database.transaction() as session:
        changed = LedgerEntryRow.content.op("||")(" ")
        await session.execute(update(LedgerEntryRow).values(content=changed))
    assert "Entry 1 is broken" in (await browser.look(f"{SUBSCRIPTION}/ledger")).words


async def two_missing(database: Database, log: MemoryLog) -> int:
    """Let three of four messages pass, of which one is delivered; the partition."""
    records = [NewRecord(value=b"x", key=b"k") for _ in range(4)]
    [at, *_] = await log.append("shop.orders", records)
    async with database.transaction() as session:
        known = await SubscriptionRepository(session).get("shop.orders", "billing")
    progress = Progress(subscription_id=known.id, offset=3, delivered=1)
    await log.commit({known.group: {at.partition: Committed(3, progress.metadata())}})
    return at.partition.index
