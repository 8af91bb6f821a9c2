"""*Analytics* and *Simulate*: asked for, followed, and shown when Spark is done."""

import csv
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import urljoin

import httpx
import pytest

from app.domain.job import JobResult
from app.storage.database import Database
from app.storage.latency_columns import LATENCY, LATENCY_FIGURES
from app.storage.spark.analysis_parts import FAILURES, SIMULATED, UNDELIVERED
from tests.fakes.spark_results import Parts, finished, taken
from tests.integration.api.console.browser import Browser, Seen, event_of

SUBSCRIPTION = "/topics/shop.orders/subscriptions/billing"
HOSTILE = "<script>alert(1)</script>\u202e"
SIMULATION = {
    "read": 100, "matched": 50, "added": 45, "dropped": 5, "bytes": 900, "peakPerSecond": 50,
    "backlog": 50, "delayMs": 500_000, "backlogAtMs": 1_767_268_800_000,
    "drainedAtMs": 1_767_269_300_500, "left": 49, "gone": 3,
}  # fmt: skip
ADDED = {
    "message_id": HOSTILE, "offset": 3, "is_added": True, "partition": 1,
    "timestamp_ms": 1_767_268_800_000, "size": 9,
}  # fmt: skip


async def test_without_an_analysis_the_page_says_how_to_get_one(browser: Browser) -> None:
    for path, kind in (
        ("/analytics", "UNDELIVERED_ANALYTICS"),
        ("/analytics/counts", "UNDELIVERED_ANALYTICS"),
        ("/analytics/latency", "LATENCY_ANALYTICS"),
    ):
        page = await browser.look(path)
        assert "Nothing was analysed yet" in page.words
        assert f"angelia jobs request {kind}" in page.words
        [asked] = {each for each in page.attributes("a", "href") if "new-job" in each}
        assert f"kind={kind}" in asked


async def test_an_analysis_under_way_is_shown(browser: Browser, database: Database) -> None:
    await browser.send("/new-job", kind="LATENCY_ANALYTICS", topic="", sloSeconds="5")
    waiting = await browser.look("/analytics/latency")
    assert "No Spark runner is live" in waiting.words
    assert "No Spark runner" not in (await browser.look("/analytics")).words
    await taken(database)
    assert "0 % done" in (await browser.look("/analytics/latency")).words


@pytest.mark.usefixtures("subscription")
async def test_failures_are_shown_with_where_to_look(
    browser: Browser, database: Database, postgres_url: str
) -> None:
    await browser.send("/new-job", kind="UNDELIVERED_ANALYTICS", topic="shop.orders")
    # Jobs look at the last day, unless they are asked for another time.
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=5)
    cluster = (
        "shop.orders", 404, f"Refused {HOSTILE}", "{order}", "ONE_SHAPE", 7, 2, 1, hour, hour,
        "m-1", "billing", HOSTILE, "[]",
    )  # fmt: skip
    counts = [
        ("shop.orders", "billing", HOSTILE, 404, hour, 5, 9, 1000),
        ("shop.orders", "billing", "timeout", None, hour + timedelta(hours=2), 2, 4, 500),
    ]
    parts: Parts = {FAILURES: [cluster], UNDELIVERED: counts}
    done = await finished(
        database, postgres_url, parts=parts, result=JobResult(output="/there/files")
    )
    job = done.id
    page = await browser.look("/analytics?topic=shop.orders")
    assert "7 messages of shop.orders , to 2 subscriptions" in page.words
    assert "look at the publisher" in page.words
    assert "Likely cause: 404 since" in page.words
    assert f"angelia analytics failures --job {job} --csv" in page.words
    assert "/there/files" in page.words
    assert "<script>alert" not in page.text
    assert "\u202e" not in page.text
    by_reason = await browser.look("/analytics/counts?topic=shop.orders")
    assert "Discarded in an hour" in by_reason.words
    assert "timeout" in by_reason.words
    assert "<script>alert" not in by_reason.text
    by_hour = await browser.look("/analytics/counts?topic=shop.orders&by=hour")
    assert [
        each
        for each in by_hour.attributes("time", "datetime")
        if each.startswith(f"{hour:%Y-%m-%dT%H:00:00}")
    ]
    [names, values] = await saved(browser, page)
    assert {**dict(zip(names, values, strict=True)), "cause": ""} == {
        "topic": "shop.orders", "status": "404", "error": f"Refused {HOSTILE}",
        "shape": "{order}", "pattern": "ONE_SHAPE", "messages": "7", "subscriptions": "2",
        "shapes": "1", "firstAt": hour.isoformat(), "lastAt": hour.isoformat(), "cause": "",
        "exampleMessageId": "m-1", "exampleSubscription": "billing", "exampleReason": HOSTILE,
    }  # fmt: skip
    assert values[names.index("cause")].startswith("404 since")
    assert await saved(browser, by_reason) == [
        ["reason", "status", "messages", "attempts", "bytes"],
        [HOSTILE, "404", "5", "9", "1000"],
        ["timeout", "", "2", "4", "500"],
    ]
    led = await browser.look(f"/jobs/{job}")
    assert [each for each in led.attributes("a", "href") if each.endswith(f"analytics?job={job}")]
    assert "There is no such result" in (await browser.look("/analytics?job=other")).words


async def saved(browser: Browser, page: Seen) -> list[list[str]]:
    """The rows of the CSV file that a page has a link to, its names first."""
    [link] = [each for each in page.attributes("a", "href") if ".csv?" in each]
    file = await browser.http.get(urljoin(str(page.response.url), link))
    assert file.headers["content-type"] == "text/csv; charset=utf-8"
    assert re.fullmatch(r'attachment; filename="[\w-]+\.csv"', file.headers["content-disposition"])
    return list(csv.reader(file.text.splitlines(keepends=True)))


@pytest.mark.usefixtures("subscription")
async def test_latencies_are_shown_with_the_share_in_time(
    browser: Browser, database: Database, postgres_url: str
) -> None:
    await browser.send("/new-job", kind="LATENCY_ANALYTICS", topic="shop.orders", sloSeconds="2")
    names = ("shop.orders", "id-billing", "billing")
    row = (*names, 11, 8, 3, 1, 0, 20, 5, *[2_500_000] * len(LATENCY_FIGURES))
    await finished(database, postgres_url, parts={LATENCY: [row]}, result=JobResult())
    page = await browser.look("/analytics/latency?topic=shop.orders")
    assert "Within 2.0 s" in page.words
    assert "50 %" in page.words
    assert "2.5 s" in page.words
    assert "the endpoint: 2.5 s" in page.text
    assert "angelia analytics latency" in page.words
    columns, figures = await saved(browser, page)
    assert columns[:5] == ["topic", "subscription", "subscriptionId", "delivered", "discarded"]
    assert figures[:5] == ["shop.orders", "billing", "id-billing", "8", "3"]
    assert columns[-2:] == ["subscriber.p99", "subscriber.max"]
    assert figures[-25:] == ["2500.0"] * 25


async def test_a_result_that_is_not_there_cannot_be_saved(browser: Browser) -> None:
    for name in ("failures", "counts", "latency"):
        page = await browser.look(f"/analytics/{name}.csv?job=other")
        assert page.response.status_code == 404
        assert "There is no such result." in page.words


@pytest.mark.usefixtures("subscription")
async def test_a_simulation_is_started_followed_and_shown(
    browser: Browser, api: httpx.AsyncClient, database: Database, postgres_url: str
) -> None:
    path = f"{SUBSCRIPTION}/simulate"
    filters = '[{"type": "jsonpath", "path": "$.n", "matcher": "[13579]"}]'
    started = await browser.send(path, filters=filters, rate="40", **{"from": "-6h"})
    simulation = started.response.url.params["id"]
    assert "No Spark runner is live" in started.words
    assert "[13579]" in started.words
    live = f"/console{path}?id={simulation}"
    assert "No Spark runner" in await event_of(api, live, "No Spark runner")
    scope = (await api.get(f"/jobs/{simulation}")).json()["scope"]
    first = datetime.fromisoformat(scope["from"]).replace(second=0, microsecond=0)
    minutes = [
        (first + timedelta(minutes=each), 60, 30, 6, 24, 900, 50, 10.0 * each) for each in range(3)
    ]
    result = JobResult(counts=SIMULATION, output="/there", samples=(ADDED,))
    await finished(database, postgres_url, parts={SIMULATED: minutes}, result=result)
    page = await browser.look(f"{path}?id={simulation}")
    assert "50 messages of 100 would have been wanted; now these are 10" in page.words
    assert "up to 50 messages would have waited" in page.words
    assert "for 8 min 20 s" in page.words
    assert "would be wanted" in page.words
    assert "Would be sent, and is not now: the first 1" in page.words
    assert "<script>alert" not in page.text


@pytest.mark.usefixtures("subscription")
async def test_a_simulation_is_cancelled(browser: Browser, api: httpx.AsyncClient) -> None:
    path = f"{SUBSCRIPTION}/simulate"
    started = await browser.send(path, filters="", rate="", **{"from": "-6h"})
    simulation = started.response.url.params["id"]
    ended = await browser.send(f"{path}?id={simulation}", "simulate/cancel", id=simulation)
    assert "It is cancelled" in ended.words
    assert (await api.get(f"/jobs/{simulation}")).json()["state"] == "CANCELLED"
    assert "It was cancelled" in (await browser.look(f"{path}?id={simulation}")).words


@pytest.mark.usefixtures("subscription")
async def test_a_wrong_simulation_is_refused_at_its_fields(browser: Browser) -> None:
    wrong = await browser.send(
        f"{SUBSCRIPTION}/simulate", filters="[1", rate="fast", **{"from": "soon"}
    )
    assert wrong.response.status_code == 400
    invalid = {named["name"] for _, named in wrong.tags if named.get("aria-invalid")}
    assert invalid & {"filters", "rate", "from"}
    assert "[1" in wrong.words
