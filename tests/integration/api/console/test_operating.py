"""The pages of operators and data engineers: jobs, sending again, ledgers, keys, changes, modes."""

from urllib.parse import urlencode

import httpx
import pytest

from app.storage.database import Database
from tests.cases import for_each
from tests.integration.api.console.browser import Browser
from tests.integration.api.console.test_access import key_of
from tests.integration.api.guarded import guarded
from tests.integration.api.replay.test_retransmissions import chosen

SUBSCRIPTION = "/topics/shop.orders/subscriptions/billing"


async def test_a_job_is_requested_followed_and_cancelled(
    browser: Browser, api: httpx.AsyncClient
) -> None:
    made = await browser.send("/new-job", kind="UNDELIVERED_ANALYTICS")
    [job] = (await api.get("/jobs")).json()
    assert made.response.url.path == f"/console/jobs/{job['id']}"
    assert "No Spark runner is live" in made.words
    assert "undelivered analytics" in (await browser.look("/jobs")).words
    assert "No job is running" in (await browser.look("/jobs?state=RUNNING")).words
    ended = await browser.send(f"/jobs/{job['id']}", f"{job['id']}/cancel")
    assert "It is cancelled" in ended.words
    assert (await api.get(f"/jobs/{job['id']}")).json()["state"] == "CANCELLED"
    assert "data-confirm" not in ended.text


async def test_a_wrong_job_is_refused_at_its_fields(browser: Browser) -> None:
    wrong = await browser.send("/new-job", kind="ARCHIVE", sloSeconds="soon", **{"from": "-1d"})
    assert wrong.response.status_code == 400
    invalid = {named["name"] for _, named in wrong.tags if named.get("aria-invalid")}
    assert "sloSeconds" in invalid


@pytest.mark.usefixtures("subscription")
async def test_messages_are_counted_before_they_are_sent_again(
    browser: Browser, api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    fields = {"only": "undelivered", "from": "-6h", "statusCodes": "500 503"}
    fields |= {"share": "0.2", "rate": "7.5"}
    counted = await browser.send(f"{SUBSCRIPTION}/resend", do="look", **fields)
    listed = f"{subscription}/retransmissions"
    [dry_run] = (await api.get(listed)).json()
    assert dry_run["dryRun"]
    assert dict(counted.response.url.params) == {**fields, "looked": dry_run["id"]}
    assert "No Spark runner is live" in counted.words
    assert {"500 503", "7.5"} <= set(counted.attributes("input", "value"))
    assert "The rate is 100/s now: 0.2 of it is 20/s." in counted.words
    assert "None yet" in counted.words
    await chosen(database, 90)
    shown = await browser.look(f"{SUBSCRIPTION}/resend?{counted.response.url.query.decode()}")
    assert "90 messages would be sent (900 B), in about 12 s." in shown.words
    assert "At most 7.5/s: its share would allow 20/s." in shown.words
    assert "The first of them Message Partition Offset Size When m 0 1 3 B" in shown.words
    assert any(link.endswith("/messages/m") for link in shown.attributes("a", "href"))
    sent = await browser.send(f"{SUBSCRIPTION}/resend", do="send", **fields)
    assert "0 of 0 finished" in sent.words or "No Spark runner is live" in sent.words
    [real] = [each for each in (await api.get(listed)).json() if not each["dryRun"]]
    assert (real["only"], real["share"], real["rate"]) == ("undelivered", 0.2, 7.5)
    assert ", at most 7.5/s" in sent.words
    ended = await browser.send(f"{SUBSCRIPTION}/resend", f"resend/{real['id']}/cancel")
    assert "It is cancelled" in ended.words
    assert (await api.get(f"{listed}/{real['id']}")).json()["state"] == "CANCELLED"


async def test_without_a_rate_of_its_own_the_share_says_how_long_it_takes(
    browser: Browser, api: httpx.AsyncClient, subscription: str, database: Database
) -> None:
    body = {"only": "all", "from": "-6h", "share": 0.2, "dryRun": True}
    requested = await api.post(f"{subscription}/retransmission", json=body)
    await chosen(database, 90)
    looked = requested.headers["Location"].rpartition("/")[2]
    counted = await browser.look(f"{SUBSCRIPTION}/resend?looked={looked}&share=much")
    assert "90 messages would be sent (900 B), in about 4.5 s." in counted.words
    assert "At most 20/s: 20 % of the rate of the subscription, which is 100/s." in counted.words
    assert "0.5 of it is 50/s." in counted.words


@pytest.mark.usefixtures("subscription")
async def test_a_wrong_choice_is_refused_with_what_was_entered(browser: Browser) -> None:
    wrong = await browser.send(
        f"{SUBSCRIPTION}/resend", do="look", only="all", filter="{no JSON", **{"from": "soon"}
    )
    assert wrong.response.status_code == 400
    assert "{no JSON" in wrong.words
    invalid = {named["name"] for _, named in wrong.tags if named.get("aria-invalid")}
    assert invalid & {"filter", "from"}
    fields = {"only": "all", "from": "-1h", "rate": "nan"}
    endless = await browser.send(f"{SUBSCRIPTION}/resend", do="send", **fields)
    assert "rate" in {named["name"] for _, named in endless.tags if named.get("aria-invalid")}
    long = await browser.send(
        f"{SUBSCRIPTION}/resend", do="look", only="all", messageIds="id " * 2_000, **{"from": "-1h"}
    )
    assert long.response.status_code == 400
    assert "too much for a form" in long.words


@pytest.mark.usefixtures("subscription")
@for_each("counted", ["\u00e9", "x?y"])
async def test_a_count_that_does_not_exist_is_not_found(browser: Browser, counted: str) -> None:
    page = await browser.look(f"{SUBSCRIPTION}/resend?{urlencode({'looked': counted})}")
    assert page.response.status_code == 404


@pytest.mark.usefixtures("subscription")
async def test_a_ledger_without_entries_says_the_next_step(
    browser: Browser, api: httpx.AsyncClient
) -> None:
    empty = await browser.look(f"{SUBSCRIPTION}/ledger")
    assert "There is no entry about this time" in empty.words
    assert "angelia ledger request shop.orders billing" in empty.words
    asked = await browser.send(f"{SUBSCRIPTION}/ledger", "ledger/request")
    [job] = (await api.get("/jobs")).json()
    assert (job["kind"], asked.response.url.path) == ("LEDGER", f"/console/jobs/{job['id']}")


async def test_operations_say_what_works_and_who_delivers(browser: Browser) -> None:
    page = await browser.look("/operations")
    assert "database works" in page.words
    assert "No worker runs" in page.words
    assert "Every topic of the database is in the log" in page.words


async def test_an_admin_changes_the_mode(browser: Browser, api: httpx.AsyncClient) -> None:
    changed = await browser.send("/operations", "operations/mode", mode="readOnly")
    assert "The mode is changed" in changed.words
    assert (await api.get("/mode")).text == "readOnly"
    wrong = await browser.send("/operations", "operations/mode", mode="closed")
    assert wrong.response.status_code == 400
    assert "must be one of readWrite" in wrong.words


async def test_a_key_is_shown_once_used_and_revoked(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        browser = Browser(http=api.http)
        await browser.sign_in(key_of(api.admin))
        wrong = await browser.send("/new-key", name="shop", scopes="everything")
        assert wrong.response.status_code == 400
        assert "everything" in wrong.attributes("input", "value")
        made = await browser.send("/new-key", name="shop", scopes="read publish:shop.*")
        listed = (await api.http.get("/keys", headers=api.admin)).json()
        [key] = [each for each in listed if each["name"] == "shop"]
        [token] = [each for each in made.words.split() if each.startswith(f"ang_{key['id']}")]
        page = await browser.look("/keys")
        assert "publish:shop.*" in page.words
        assert "shop made by first , 2" in page.words
        # The service itself made the first key.
        assert "made by ," not in page.words
        assert token not in page.text
        headers = {"Authorization": f"Bearer {token}"}
        assert (await api.http.get("/topics", headers=headers)).status_code == 200
        await browser.send("/keys", f"keys/{key['id']}/revoke")
        assert (await api.http.get("/topics", headers=headers)).status_code == 401


async def test_changes_are_found_by_name_with_their_fields(
    browser: Browser, api: httpx.AsyncClient, subscription: str
) -> None:
    await api.put(subscription, json={"subscriptionPolicy": {"rate": 77}})
    page = await browser.look("/audit?name=shop.orders/billing&action=UPDATED")
    assert "subscriptionPolicy.rate" in page.words
    assert "77" in page.words
    assert "No change fits" in (await browser.look("/audit?name=nobody")).words
    wrong = await browser.look("/audit?action=EATEN")
    assert wrong.response.status_code == 400


async def test_what_a_reader_may_not_do_is_not_offered(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        made = await api.http.post(
            "/keys", json={"name": "look", "scopes": ["read"]}, headers=api.admin
        )
        browser = Browser(http=api.http)
        await browser.sign_in(made.json()["key"])
        jobs, operations = await browser.look("/jobs"), await browser.look("/operations")
        assert "New job" not in jobs.words
        assert "API keys" not in operations.words
        assert "Change" not in operations.words
        assert (await browser.look("/audit")).response.status_code == 403
        refused = await browser.send("/operations", "operations/mode", mode="readOnly")
        assert refused.response.status_code == 403


async def test_oauth_providers_are_shown_with_who_may_use_them_and_where(
    browser: Browser, api: httpx.AsyncClient
) -> None:
    provider = {
        "name": "login",
        "tokenEndpoint": "https://login.example.com/token",
        "clientId": "angelia",
        "clientSecret": "hush-hush",
        "owners": [{"source": "Plaintext", "id": "Billing"}],
        "endpointHosts": ["*.shop.example.com"],
        "scopes": ["orders.write"],
    }
    assert "/oauth/providers" in (await browser.look("/operations")).words
    (await api.post("/oauth/providers", json=provider)).raise_for_status()
    free = {**provider, "name": "free", "owners": [], "endpointHosts": [], "scopes": []}
    (await api.post("/oauth/providers", json=free)).raise_for_status()
    page = await browser.look("/operations")
    assert "as angelia Billing *.shop.example.com orders.write" in page.words
    assert "only admins where admins say all" in page.words
    assert "hush" not in page.text


async def test_the_settings_in_force_are_shown_without_secrets(browser: Browser) -> None:
    page = await browser.look("/operations/settings")
    assert "ANGELIA_SECRET_KEY *****" in page.words
    assert "ANGELIA_PORT 8090" in page.words
