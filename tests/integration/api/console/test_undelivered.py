"""*Undelivered* and *Messages*: found by what the URL says, and sent again."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from app.domain.discards.undelivered import Undelivered
from app.domain.message import Partition
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.discards.undelivered import UndeliveredRepository
from tests.cases import for_each
from tests.fakes.memory_log import MemoryLog
from tests.integration.api.console.browser import Browser
from tests.integration.storage.builders import a_load, an_undelivered, report

HERE = "/topics/shop.orders/subscriptions/billing/undelivered"
STREAM = Partition("angelia.undelivered", 0)


@pytest.fixture
async def discards(subscription: str, topic: str, database: Database) -> list[Undelivered]:
    """Three discarded messages; each second one timed out."""
    assert subscription.endswith("/billing")
    now = datetime.now(UTC)
    async with database.transaction() as session:
        billing = await SubscriptionRepository(session).get(topic, "billing")
        made = [
            an_undelivered(
                number,
                subscription_id=billing.id,
                body=b'{"order": %d}' % number,
                key=b"k-%d" % number,
                discarded_at=now - timedelta(hours=number + 1),
                reason="Message sending failed: timeout" if number % 2 else "Refused by 404",
                status=None if number % 2 else 404,
                last_failure="late: <i>1 s</i>" if number % 2 else "",
                answer="" if number % 2 else "<b>no</b> order",
            )
            for number in range(3)
        ]
        await UndeliveredRepository(session).record(made, STREAM, len(made))
    return made


@pytest.mark.usefixtures("discards")
@for_each(
    ("query", "found"),
    [
        ("", {"m-0", "m-1", "m-2"}),
        ("?reason=TIMEOUT", {"m-1"}),
        ("?status=404", {"m-0", "m-2"}),
        ("?since=-2h&until=-30m", {"m-0"}),
        ("?key=k-2", {"m-2"}),
        ("?text=order%22%3A+1", {"m-1"}),
    ],
)
async def test_what_the_url_says_is_shown_of_a_subscription_and_of_a_topic(
    browser: Browser, query: str, found: set[str]
) -> None:
    for path in (HERE, "/topics/shop.orders/undelivered"):
        page = await browser.look(f"{path}{query}")
        assert {each for each in ("m-0", "m-1", "m-2") if each in page.words} == found


async def test_a_wrong_filter_is_said(browser: Browser, subscription: str) -> None:
    del subscription
    page = await browser.look(f"{HERE}?since=yesterday")
    assert page.response.status_code == 400
    assert "since must be a time" in page.words
    assert "yesterday" in page.attributes("input", "value")


@pytest.mark.usefixtures("discards")
async def test_what_the_endpoint_answered_is_shown_with_what_was_discarded(
    browser: Browser,
) -> None:
    for path in (HERE, HERE.removesuffix("/undelivered")):
        text = (await browser.look(path)).text
        assert text.count("The endpoint answered:") == 2
        assert text.count("&lt;b&gt;no&lt;/b&gt; order") == 2


@pytest.mark.usefixtures("discards")
async def test_why_the_last_attempt_failed_is_shown_if_there_was_no_answer(
    browser: Browser,
) -> None:
    for path in (HERE, HERE.removesuffix("/undelivered")):
        text = (await browser.look(path)).text
        assert text.count("The last attempt failed: late: &lt;i&gt;1 s&lt;/i&gt;") == 1


async def test_messages_that_failed_and_are_still_retried_are_shown_with_the_answer(
    browser: Browser, topic: str, subscription: str, database: Database
) -> None:
    assert "no failure is reported" in (await browser.look(subscription)).words
    async with database.transaction() as session:
        billing = await SubscriptionRepository(session).get(topic, "billing")
    await report(database, a_load(billing.id))
    page = await browser.look(subscription)
    assert "after 2 attempts still retried" in page.words
    assert "status code:503 The endpoint answered: busy" in page.words


@pytest.mark.usefixtures("discards")
async def test_chosen_messages_are_sent_again_and_the_filter_stays(
    browser: Browser, log: MemoryLog
) -> None:
    sent = await browser.send(f"{HERE}?status=404", id="m-2")
    assert "The messages are in the log again" in sent.words
    assert "sent again" in sent.words
    assert sent.response.url.params["status"] == "404"
    assert [record.value for record in log.records("shop.orders")] == [b'{"order": 2}']
    nothing = await browser.send(HERE)
    assert "No message was chosen" in nothing.words


@pytest.mark.usefixtures("discards")
async def test_all_that_match_are_shown_and_then_sent_again(
    browser: Browser, log: MemoryLog
) -> None:
    page = await browser.look(f"{HERE}/again?status=404")
    assert "2 messages" in page.words
    assert "m-1" not in page.words
    sent = await browser.send(f"{HERE}/again?status=404")
    assert "The messages are in the log again" in sent.words
    assert {record.value for record in log.records("shop.orders")} == {
        b'{"order": 0}',
        b'{"order": 2}',
    }
    assert "Nothing that matches is left" in (await browser.look(f"{HERE}/again?status=404")).words


@pytest.mark.usefixtures("discards")
async def test_a_link_alone_sends_nothing(browser: Browser, log: MemoryLog) -> None:
    page = await browser.look(f"{HERE}/again?sent=1")
    assert not [named for tag, named in page.tags if tag == "form" and "data-continue" in named]
    assert not log.records("shop.orders")


@pytest.mark.usefixtures("discards")
async def test_one_message_is_sent_again_from_its_page(browser: Browser, log: MemoryLog) -> None:
    path = "/topics/shop.orders/messages/m-1"
    page = await browser.look(path)
    assert "timeout" in page.words
    sent = await browser.send(path, subscription="billing")
    assert "The messages are in the log again" in sent.words
    assert [record.value for record in log.records("shop.orders")] == [b'{"order": 1}']


@pytest.mark.usefixtures("discards")
async def test_the_commands_of_the_forms_send_again_too(browser: Browser, log: MemoryLog) -> None:
    for page in (f"{HERE}?status=404", "/topics/shop.orders/messages/m-1", f"{HERE}/again"):
        await browser.run(page)
    sent = [record.value for record in log.records("shop.orders")]
    assert sent == [b'{"order": 0}', b'{"order": 1}', b'{"order": 2}']


@pytest.mark.usefixtures("discards")
async def test_a_message_that_many_did_not_get_has_the_command_for_one(
    browser: Browser, api: httpx.AsyncClient, topic: str, database: Database
) -> None:
    other = {"name": "audit", "endpoint": "http://subscriber.test/"}
    (await api.post(f"/topics/{topic}/subscriptions", json=other)).raise_for_status()
    async with database.transaction() as session:
        audit = await SubscriptionRepository(session).get(topic, "audit")
        discard = an_undelivered(1, subscription_id=audit.id, subscription="audit")
        await UndeliveredRepository(session).record([discard], STREAM, 4)
    path = f"/topics/{topic}/messages/m-1"
    assert (await browser.look(path)).words.count("discarded it") == 2
    assert len(await browser.run(path)) == 1


@pytest.mark.usefixtures("discards")
async def test_a_message_is_found_by_its_id_in_all_topics(browser: Browser) -> None:
    assert "m-1" in (await browser.look("/undelivered?message=m-1")).words
    assert "What happened in" in (await browser.look("/messages?messageId=m-1")).words
    assert "Nothing is known" in (await browser.look("/messages?messageId=other")).words


async def test_messages_are_found_in_the_log_by_id_key_text_and_path(
    browser: Browser, api: httpx.AsyncClient, topic: str
) -> None:
    for number in range(3):
        headers = {"Idempotency-Key": f"m-{number}", "Partition-Key": f"k-{number}"}
        sent = await api.post(f"/topics/{topic}", json={"order": number}, headers=headers)
        sent.raise_for_status()
    for query in ("messageId=m-1", "key=k-1", "text=%22order%22%3A1", "path=%24.order&value=1"):
        page = await browser.look(f"/messages?topic={topic}&{query}")
        found = {each for each in ("k-0", "k-1", "k-2") if f"key {each}" in page.words}
        assert found == {"k-1"}, query
    page = await browser.look(f"/messages?topic={topic}&path=nonsense[")
    assert page.response.status_code == 400
    assert "path" in page.words
    assert "Give a topic" in (await browser.look("/messages?key=k-1")).words
