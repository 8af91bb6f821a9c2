import json
import tomllib

import httpx
import pytest

from app import native
from tests.architecture.tree import ROOT
from tests.e2e.cli import Place, wait_until

TOPIC = "shop.orders"


def test_processes_of_one_home_share_its_database_and_log_whether_they_run_compiled(
    place: Place,
) -> None:
    workers = ("worker", "--processes", "2")
    with place.started("api") as api, place.started(*workers) as worker:
        wait_until(lambda: place.run("topic", "list").returncode == 0, "no API")
        worker.says("worker_starting", after=worker.says("worker_starting"))
        with place.started("listen", "--topic", TOPIC) as listen:
            listen.says("Listening")
            assert place.run("publish", TOPIC, '{"order": 1}').returncode == 0
            listen.says('"order": 1')
            listen.interrupt()
        with place.started("listen", "--topic", TOPIC, "--start-from", "earliest") as listen:
            listen.says('"order": 1')
            listen.interrupt()
        assert worker.interrupt() == 0, worker.output
        assert api.interrupt() == 0, api.output
    lines = [line for line in (api.output + worker.output).splitlines() if line[:1] == "{"]
    starts = [each for each in map(json.loads, lines) if each["event"].endswith("_starting")]
    assert [each["event"] for each in starts] == ["api_starting", *["worker_starting"] * 2]
    assert {each["process"] for each in starts[1:]} == {1, 2}
    assert {each["compiled"] for each in starts} == {native.is_compiled()}


def test_the_version_is_that_of_the_project(place: Place) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    answer = place.run("--version")
    how = " (compiled)" if native.is_compiled() else ""
    assert (answer.returncode, answer.stdout) == (0, f"angelia {project['version']}{how}\n")


def test_topics_and_subscriptions_are_made_shown_and_deleted(served_place: Place) -> None:
    place, topic = served_place, "made.orders"
    said = [
        place.run("topic", "create", topic, "--partitions", "2"),
        place.run("subscription", "create", topic, "billing", "http://127.0.0.1:1/"),
        place.run("subscription", "suspend", topic, "billing"),
    ]
    assert [each.returncode for each in said] == [0, 0, 0], said
    shown = json.loads(place.run("topic", "show", topic, "--json").stdout)
    assert (shown["partitions"], shown["subscriptions"]) == (2, ["billing"])
    billing = json.loads(place.run("subscription", "show", topic, "billing", "--json").stdout)
    assert billing["state"] == "SUSPENDED"
    assert "SUSPENDED" in place.run("subscription", "list", topic).stdout
    assert "Activated" in place.run("subscription", "activate", topic, "billing").stdout
    refused = place.run("topic", "delete", topic)
    assert refused.returncode == 1
    assert place.run("subscription", "delete", topic, "billing").returncode == 0
    assert place.run("topic", "delete", topic).returncode == 0


def test_signing_secrets_are_made_listed_and_deleted(served_place: Place) -> None:
    place, topic = served_place, "signed.orders"
    with httpx.Client(base_url=place.url, timeout=30, trust_env=False) as http:
        http.post("/topics", json={"name": topic}).raise_for_status()
        billing = {"name": "billing", "endpoint": "http://127.0.0.1:1/"}
        http.post(f"/topics/{topic}/subscriptions", json=billing).raise_for_status()
    secrets = ("subscription", "secrets")
    made = json.loads(place.run(*secrets, "create", topic, "billing", "--json").stdout)
    assert made["secret"].startswith("whsec_")
    listed = place.run(*secrets, "list", topic, "billing").stdout
    assert made["id"] in listed
    assert made["secret"] not in listed
    assert place.run(*secrets, "delete", topic, "billing", made["id"]).returncode == 0


def test_a_discarded_message_is_listed_with_body_and_reason(served_place: Place) -> None:
    place, topic = served_place, "discarded.orders"
    with place.started("listen", "--topic", topic, "--name", "me", "--status", "400") as listen:
        listen.says("Listening")
        message_id = place.run("publish", topic, "-", text='{"order": 1}').stdout.strip()
        listen.says(message_id)
        wait_until(lambda: undelivered(place, topic) != [], "it is not listed")
        (listed,) = undelivered(place, topic)
        assert listed["messageId"] == message_id
        assert listed["message"] == '{"order": 1}'
        assert "400" in str(listed["reason"])
        assert message_id in place.run("undelivered", topic, "me").stdout
        listen.interrupt()


def test_a_message_that_an_endpoint_did_not_answer_is_listed_with_its_last_failure(
    served_place: Place,
) -> None:
    place, topic = served_place, "unanswered.orders"
    with httpx.Client(base_url=place.url, timeout=30, trust_env=False) as http:
        http.post("/topics", json={"name": topic}).raise_for_status()
        away = {"name": "me", "endpoint": "http://127.0.0.1:1/"}
        once = {**away, "subscriptionPolicy": {"maxRetries": 0}}
        http.post(f"/topics/{topic}/subscriptions", json=once).raise_for_status()
    assert place.run("publish", topic, "-", text='{"order": 1}').returncode == 0
    wait_until(lambda: undelivered(place, topic) != [], "it is not listed")
    (listed,) = undelivered(place, topic)
    assert listed["reason"] == "Maximum number of retries reached"
    assert str(listed["lastFailure"]).startswith("Could not connect")
    assert str(listed["lastFailure"]) in place.run("undelivered", topic, "me").stdout


def test_a_refusal_names_the_fields_that_are_wrong(served_place: Place) -> None:
    served_place.run("topic", "create", "refused.orders")
    command = ("subscription", "create", "refused.orders", "billing", "ftp://example.com/")
    refused = served_place.run(*command)
    assert refused.returncode == 1
    assert "endpoint must be" in refused.stderr


def test_check_tells_what_is_set_and_what_answers(place: Place) -> None:
    answer = place.run("check", "--json")
    assert answer.returncode == 0, answer.stderr
    told = json.loads(answer.stdout)
    port = next(each for each in told["settings"] if each["name"] == "ANGELIA_PORT")
    assert port == {"name": "ANGELIA_PORT", "value": str(place.port), "from": "environment"}
    problems = {each["name"]: each["problem"] for each in told["parts"]}
    assert problems["database"] == problems["migrations"] == problems["message log"] == ""
    assert "not ready" in problems["API"]
    code = next(each["where"] for each in told["parts"] if each["name"] == "code")
    assert code == ("compiled" if native.is_compiled() else "interpreted")
    assert "embedded" in place.run("check").stdout


@pytest.mark.parametrize(
    "misused", [["listen"], ["up", "--port", "x"], ["demo", "--messages", "0"], ["nothing"], []]
)
def test_misuse_ends_with_2(place: Place, misused: list[str]) -> None:
    assert place.run(*misused).returncode == 2


def test_a_command_without_an_api_says_how_to_start_one(place: Place) -> None:
    answer = place.run("topic", "list")
    assert answer.returncode == 3
    assert "angelia up" in answer.stderr


def undelivered(place: Place, topic: str) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(
        place.run("undelivered", topic, "me", "--json").stdout
    )
    return listed
