"""The page *Now*, with subscriptions that need a person."""

import re
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from pydantic import SecretStr

from app.config import Settings
from app.domain.health.alerts import Alert, AlertKind
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.health.alerts import AlertRepository
from tests.fakes.keys import KEY
from tests.integration.api.console.browser import Browser

# By kind of alert: what the page offers, and where that leads.
OFFERED = {
    AlertKind.LEDGER_MISSING: ("Look at the ledger", "/ledger"),
    AlertKind.CIRCUIT_OPEN: ("Look at the errors", "#errors"),
    AlertKind.UNDELIVERED: ("Look at what was discarded", "/undelivered"),
    AlertKind.CERTIFICATE_EXPIRY: ("Renew it", "/certificates"),
    AlertKind.SECRET_EXPIRY: ("Renew it", "/secrets"),
}


@pytest.fixture
def settings() -> Settings:
    """Nothing is evaluated meanwhile: that would end alerts that have no cause."""
    return Settings(secret_key=SecretStr(KEY), health_interval=300)


async def alerted(
    api: httpx.AsyncClient, database: Database, kind: AlertKind, **details: object
) -> str:
    """A subscription with such an alert; its name."""
    name = kind.value.lower()
    body = {"name": name, "endpoint": "http://subscriber.test/"}
    (await api.post("/topics/shop.orders/subscriptions", json=body)).raise_for_status()
    async with database.transaction() as session:
        subscription = await SubscriptionRepository(session).get("shop.orders", name)
        alert = Alert(
            id=name,
            kind=kind,
            subscription_id=subscription.id,
            topic="shop.orders",
            subscription=name,
            description="something happened",
            details=details,
            raised_at=datetime.now(UTC),
            cleared_at=None,
        )
        await AlertRepository(session).raise_([alert])
    return name


@pytest.mark.usefixtures("topic")
async def test_each_case_has_the_action_that_fits(
    browser: Browser, api: httpx.AsyncClient, database: Database
) -> None:
    names = {kind: await alerted(api, database, kind) for kind in OFFERED}
    text = (await browser.look("/")).text
    found = dict(re.findall(r'<a class="button" href="\./([^"]+)">([^<]+)</a>', text))
    for kind, (label, end) in OFFERED.items():
        assert found[f"topics/shop.orders/subscriptions/{names[kind]}{end}"] == label


@pytest.mark.usefixtures("topic")
async def test_a_suspended_subscription_is_resumed_where_it_is_shown(
    browser: Browser, api: httpx.AsyncClient, database: Database
) -> None:
    path = f"/topics/shop.orders/subscriptions/{await alerted(api, database, AlertKind.SUSPENDED)}"
    (await api.put(f"{path}/state", json="SUSPENDED")).raise_for_status()
    assert f".{path}/state" in (await browser.look("/")).attributes("form", "action")
    await browser.send("/", f".{path}/state", do="resume")
    assert (await api.get(path)).json()["state"] != "SUSPENDED"


@pytest.mark.usefixtures("topic")
async def test_a_loss_is_shown_with_the_time_left_and_the_rate_that_would_do(
    browser: Browser, api: httpx.AsyncClient, database: Database
) -> None:
    loss = {
        "firstLossAt": (datetime.now(UTC) + timedelta(hours=2, minutes=5)).isoformat(),
        "expiring": 1_200,
        "rateNeeded": 431.5,
        "cause": "RETENTION",
    }
    name = await alerted(api, database, AlertKind.LOSS_FORECAST, **loss)
    page = await browser.look("/")
    assert re.search(r"2 h [34] min left: 1\.2 k messages of those that wait", page.words)
    assert "At 432/s it would lose nothing more" in page.words
    form = await browser.follow(page, "Raise the rate")
    assert form.response.url.path == f"/console/topics/shop.orders/subscriptions/{name}/edit"
    assert "The link suggests a higher rate, so that no more messages are lost" in form.words
    assert "Suggested: 440. Now: 400." in form.words
    shown = await browser.confirm(form)
    assert "subscriptionPolicy.rate 400 440" in shown.words, shown.words
    slow = await browser.look(
        f"/topics/shop.orders/subscriptions/{name}/edit?why=loss&fill=subscriptionPolicy.rate%3D80"
    )
    assert "The rate is already at least as high as the link suggests" in slow.words
    assert slow.fields["subscriptionPolicy.rate"] == "400"
