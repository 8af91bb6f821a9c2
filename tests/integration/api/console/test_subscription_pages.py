"""The pages below a subscription: signing secrets, the filter debugger, and moving it."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from app.domain.catalogue.client_certificate import ClientCertificate
from app.domain.status import Output, RateMode
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from tests.cases import for_each
from tests.fakes.authority import Authority
from tests.integration.api.console.browser import Browser
from tests.integration.api.console.commands import curls_of
from tests.integration.storage.builders import a_load, report

SUBSCRIPTION = "/topics/shop.orders/subscriptions/billing"
CERTIFICATES = f"{SUBSCRIPTION}/certificates"


def in_form(certificate: ClientCertificate, *, key: str | None = None) -> dict[str, str]:
    """The fields of the form for a certificate, perhaps with another key."""
    return {
        "clientCertificate.certificate": certificate.chain,
        "clientCertificate.privateKey": certificate.private_key if key is None else key,
    }


async def test_a_secret_is_made_shown_once_and_ended(
    browser: Browser, api: httpx.AsyncClient, subscription: str
) -> None:
    made = await browser.send(f"{SUBSCRIPTION}/secrets", type="v1", overlap="60")
    [secret] = set(re.findall(r"whsec_[A-Za-z0-9+/=]{20,}", made.text))
    assert made.response.headers["cache-control"] == "no-store"
    assert secret not in (await browser.look(f"{SUBSCRIPTION}/secrets")).text
    [stored] = (await api.get(f"{subscription}/secrets")).json()
    ended = await browser.send(f"{SUBSCRIPTION}/secrets", remove=stored["id"])
    assert "signs no more" in ended.words
    assert (await api.get(f"{subscription}/secrets")).json() == []


async def test_a_client_certificate_is_set_shown_with_its_end_and_removed(
    browser: Browser, api: httpx.AsyncClient, subscription: str, tmp_path: Path
) -> None:
    (await api.put(subscription, json={"endpoint": "https://subscriber.test/"})).raise_for_status()
    assert "--rawfile privateKey client.key" in (await browser.look(CERTIFICATES)).text
    joe = Authority(tmp_path).client("joe", expired=datetime.now(UTC) + timedelta(days=9, hours=1))
    saved = await browser.send(CERTIFICATES, **in_form(joe))
    stored = (await api.get(subscription)).json()["clientCertificate"]
    end = stored["expiresAt"].replace("T", " ")[:19]
    assert f"Until {end} UTC expires in 9 days" in saved.words
    assert f"Client certificate until {end} UTC" in (await browser.look(SUBSCRIPTION)).words
    kept = await browser.send(CERTIFICATES, **in_form(joe, key=""))
    assert "The change is saved" in kept.words
    await browser.send(CERTIFICATES, remove="yes")
    assert "clientCertificate" not in (await api.get(subscription)).json()


async def test_a_refused_certificate_has_its_errors_at_the_fields_and_shows_no_key(
    browser: Browser, api: httpx.AsyncClient, subscription: str, tmp_path: Path
) -> None:
    (await api.put(subscription, json={"endpoint": "https://subscriber.test/"})).raise_for_status()
    joe, ann = (Authority(tmp_path).client(name) for name in ("joe", "ann"))
    wrong = await browser.send(CERTIFICATES, **in_form(joe, key=ann.private_key))
    assert wrong.response.status_code == 400
    assert "must be the key of the certificate" in wrong.words
    named = [named["name"] for _, named in wrong.tags if named.get("aria-invalid")]
    assert named == ["clientCertificate.privateKey"]
    assert joe.chain.splitlines()[1] in wrong.text
    assert ann.private_key.splitlines()[1] not in wrong.text
    empty = await browser.send(CERTIFICATES, **in_form(joe, key=""))
    assert [each["name"] for _, each in empty.tags if each.get("aria-invalid")] == named


async def test_a_private_key_among_other_settings_is_in_no_command(
    browser: Browser, api: httpx.AsyncClient, subscription: str, tmp_path: Path
) -> None:
    joe = Authority(tmp_path).client("joe")
    key = joe.private_key.splitlines()[1]
    certificate = {"certificate": joe.chain, "privateKey": joe.private_key}
    more = json.dumps({"endpoint": "https://a.test/", "clientCertificate": certificate})
    form = await browser.look(f"{SUBSCRIPTION}/edit")
    wrong = await browser.confirm(form, more=more, **{"subscriptionPolicy.rate": "fast"})
    assert key in wrong.fields["more"]
    asked = await browser.confirm(form, more=more)
    assert key in asked.fields["patch"]
    assert key not in asked.words
    saved = await browser.confirm(asked)
    assert (await api.get(subscription)).json()["clientCertificate"]["certificate"] == joe.chain
    for page in (wrong, asked, saved):
        assert curls_of(page.text)
        assert not [line for line in curls_of(page.text) if key in line]
    assert '"privateKey": "*****"' in "".join(curls_of(asked.text))


@pytest.mark.usefixtures("subscription")
async def test_an_endpoint_without_tls_has_no_form_for_certificates(browser: Browser) -> None:
    page = await browser.look(CERTIFICATES)
    assert "the endpoint is not https" in page.words
    assert "textarea" not in {tag for tag, _ in page.tags}


async def test_the_page_says_when_the_next_message_is_tried(
    api: httpx.AsyncClient, topic: str, subscription: str, database: Database
) -> None:
    # Once it was changed it is ACTIVE, and not PENDING for lack of a worker.
    (await api.patch(subscription, json={"description": "bills"})).raise_for_status()
    in_ten_days = datetime.now(UTC) + timedelta(days=10, minutes=90)
    down = Output(mode=RateMode.HEARTBEAT, reason="all failed", next_probe_at=in_ten_days)
    async with database.transaction() as session:
        billing = await SubscriptionRepository(session).get(topic, "billing")
    await report(database, a_load(billing.id, output=down))
    page = await Browser(http=api).look(SUBSCRIPTION)
    assert "considered down (all failed)" in page.words
    assert "; next probe in 10 d 1 h." in page.words


@pytest.mark.usefixtures("subscription")
async def test_a_wrong_overlap_is_refused_at_its_field(browser: Browser) -> None:
    wrong = await browser.send(f"{SUBSCRIPTION}/secrets", type="v1", overlap="long")
    assert wrong.response.status_code == 400
    assert [named["name"] for _, named in wrong.tags if named.get("aria-invalid")] == ["overlap"]


@pytest.mark.usefixtures("subscription")
@for_each(
    ("message", "said"),
    [
        ('{"country": "PL"}', "It matches."),
        ('{"country": "FR"}', "It does not match."),
        ("no JSON", "It cannot be judged"),
    ],
)
async def test_filters_are_tried_on_a_message(browser: Browser, message: str, said: str) -> None:
    filters = '[{"type": "jsonpath", "path": "$.country", "matcher": "PL"}]'
    tried = await browser.send(f"{SUBSCRIPTION}/filters", filters=filters, message=message)
    assert said in tried.words


@pytest.mark.usefixtures("subscription")
async def test_a_recent_message_is_taken_for_the_filters(
    browser: Browser, api: httpx.AsyncClient
) -> None:
    (await api.post("/topics/shop.orders", json={"order": 17})).raise_for_status()
    page = await browser.look(f"{SUBSCRIPTION}/filters?take=0")
    assert "&#34;order&#34;:17" in page.text
    assert "&#34;order" not in (await browser.look(f"{SUBSCRIPTION}/filters?take=9")).text


@pytest.mark.usefixtures("subscription")
async def test_filters_that_cannot_be_compiled_are_refused_at_their_field(browser: Browser) -> None:
    wrong = await browser.send(f"{SUBSCRIPTION}/filters", filters='[{"type": "x"}]', message="{}")
    assert wrong.response.status_code == 400
    assert [named["name"] for _, named in wrong.tags if named.get("aria-invalid")] == ["filters"]


@pytest.mark.usefixtures("subscription")
async def test_what_a_move_means_is_shown_before_it_is_done(
    browser: Browser, api: httpx.AsyncClient
) -> None:
    for number in range(3):
        (await api.post("/topics/shop.orders", json={"order": number})).raise_for_status()
    shown = await browser.send(f"{SUBSCRIPTION}/move", to="2100-01-01T00:00:00Z")
    assert "3 messages are skipped" in shown.words, shown.words
    done = await browser.send(f"{SUBSCRIPTION}/move", to="2100-01-01T00:00:00Z", sure="yes")
    assert "It is moved" in done.words


@pytest.mark.usefixtures("subscription")
async def test_a_time_that_is_none_is_refused(browser: Browser) -> None:
    wrong = await browser.send(f"{SUBSCRIPTION}/move", to="yesterday")
    assert wrong.response.status_code == 400
    assert "retransmissionDate" in wrong.words
