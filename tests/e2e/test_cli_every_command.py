"""Every command that calls the API, against a service that runs, in JSON and for people."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from app.cli.main import app
from tests.architecture.cli_page import loaded
from tests.e2e.cli import PATIENCE_S, Place, wait_until

# Each command is a process of its own, and there are many.
pytestmark = pytest.mark.timeout(300)

TOPIC: Final = "shop.orders"
ME: Final = (TOPIC, "me")
# These run until they are told to stop, or are not about the API: they have tests of their own.
ELSEWHERE: Final = frozenset({"up", "api", "worker", "spark", "migrate", "listen", "demo"}) | {
    "spark pack",
    "secrets key",
    "secrets rotate",
}


class Shop:
    """A service with a topic, and a subscriber that discards every message."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def json(self, *arguments: str, code: int = 0, text: str | None = None) -> Any:  # noqa: ANN401 - JSON is of any type
        """What a command says in JSON."""
        done = self.place.run(*arguments, "--json", text=text)
        assert done.returncode == code, done
        return json.loads(done.stdout)

    def says(self, *arguments: str, code: int = 0) -> str:
        """What a command says to people."""
        done = self.place.run(*arguments)
        assert done.returncode == code, done
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with tempfile.TemporaryDirectory(prefix="angelia-test-") as directory:
        place = Place(home=Path(directory) / "home")
        with place.started("up") as up:
            up.says("Angelia is ready")
            listening = ("listen", "--topic", TOPIC, "--name", "me", "--status", "400")
            with place.started(*listening) as listen:
                listen.says("Listening")
                yield Shop(place)
                listen.interrupt()
            assert up.interrupt() == 0, up.output
        wait_until(place.is_deserted, "a process was left behind")


def leaves(command: Any, path: Sequence[str] = ()) -> Iterator[str]:  # noqa: ANN401 - typer names none of its classes
    for name, entry in command.commands.items():
        below = loaded(entry)
        if hasattr(below, "commands"):
            yield from leaves(below, (*path, name))
        else:
            yield " ".join((*path, name))


def test_groups(shop: Shop) -> None:
    assert shop.json("group", "create", "bakery") == {"groupName": "bakery"}
    assert "bakery" in shop.json("group", "list")
    assert "bakery" in shop.says("group", "list")
    assert shop.json("group", "delete", "bakery") == {"groupName": "bakery"}
    assert "exist" in shop.says("group", "delete", "bakery", code=4)


def test_topics(shop: Shop) -> None:
    more = '{"retentionTime": {"duration": 2}}'
    made = shop.json("topic", "create", "shop.returns", "--partitions", "3", "--settings", more)
    assert (made["partitions"], made["retentionTime"]["duration"]) == (3, 2)
    assert shop.json("topic", "list", "--group", "shop") == [TOPIC, "shop.returns"]
    changed = shop.json("topic", "change", "shop.returns", '{"description": "returns"}')
    assert changed["description"] == "returns"
    shown = shop.json("topic", "show", "shop.returns")
    assert (shown["subscriptions"], shown["metrics"]["subscriptions"]) == ([], 0)
    assert "retentionTime.duration" in shop.says("topic", "show", "shop.returns")
    assert "already" in shop.says("topic", "create", "shop.returns", code=1)
    assert "adopted" in shop.says("topic", "adopt", "shop.nowhere", code=1)
    assert shop.json("topic", "delete", "shop.returns") == {"name": "shop.returns"}
    assert "exist" in shop.says("topic", "show", "shop.returns", code=4)
    shop.says("topic", "change", TOPIC, "{", code=2)
    shop.says("topic", "change", TOPIC, "[]", code=2)


def test_schemas(shop: Shop, tmp_path: Path) -> None:
    shop.json("topic", "create", "shop.typed")
    text = '{"type": "object", "required": ["order"]}'
    file = tmp_path / "schema.json"
    file.write_text(text)
    assert shop.json("topic", "schema", "set", "shop.typed", str(file)) == {"version": 1}
    assert shop.json("topic", "schema", "set", "shop.typed", "-", text=text) == {"version": 1}
    assert shop.json("topic", "schema", "show", "shop.typed")["schema"] == text
    assert text in shop.says("topic", "schema", "show", "shop.typed", "--version", "1")
    assert [each["version"] for each in shop.json("topic", "schema", "versions", "shop.typed")]
    assert "yes" in shop.says("topic", "schema", "versions", "shop.typed")
    assert shop.json("topic", "schema", "delete", "shop.typed") == {"name": "shop.typed"}
    assert "no such schema" in shop.says("topic", "schema", "show", "shop.typed", code=4)
    assert "can be read" in shop.says("topic", "schema", "set", "shop.typed", "nowhere", code=1)
    shop.json("topic", "delete", "shop.typed")


def test_subscriptions(shop: Shop) -> None:
    command = ("subscription", "create", TOPIC, "billing", "http://127.0.0.1:1/")
    begun = ("--rate", "7", "--start-from", "-6h")
    assert shop.json(*command, *begun)["subscriptionPolicy"]["rate"] == 7
    billing = (TOPIC, "billing")
    patch = '{"subscriptionPolicy": {"rate": 8}}'
    changed = shop.json("subscription", "change", *billing, patch)
    assert changed["subscriptionPolicy"]["rate"] == 8
    assert shop.json("subscription", "suspend", *billing)["state"] == "SUSPENDED"
    assert shop.json("subscription", "activate", *billing)["state"] in {"ACTIVE", "PENDING"}
    listed = shop.json("subscription", "list", TOPIC)
    assert [each["name"] for each in listed] == ["billing", "me"]
    assert "billing" in shop.says("subscription", "list", TOPIC)
    assert shop.json("subscription", "show", *billing)["metrics"]["delivered"] == 0
    pong = shop.json("subscription", "ping", *billing, code=1)
    assert pong["delivered"] is False
    assert shop.json("subscription", "ping", *ME, code=1)["status"] == 400
    deleted = shop.json("subscription", "delete", *billing)
    assert deleted == {"topicName": TOPIC, "name": "billing"}
    assert "exist" in shop.says("subscription", "show", *billing, code=4)


def test_signing_secrets(shop: Shop) -> None:
    made = shop.json("subscription", "secrets", "create", *ME)
    listed = shop.json("subscription", "secrets", "list", *ME)
    assert [each["id"] for each in listed] == [made["id"]]
    gone = shop.json("subscription", "secrets", "delete", *ME, made["id"])
    assert gone == {"id": made["id"]}


def test_messages(shop: Shop) -> None:
    published = shop.json("publish", TOPIC, '{"order": 1}', "--key", "k", "--id", "mine")
    assert published == {"messageId": "mine"}
    listed: list[dict[str, str]] = []

    def is_listed() -> bool:
        # Other tests have others discarded.
        found = shop.json("undelivered", *ME, "--status", "400", "--since", "-1h")
        listed[:] = [each for each in found if each["messageId"] == "mine"]
        return bool(listed)

    wait_until(is_listed, "it is not listed")
    assert [each["message"] for each in listed] == ['{"order": 1}']
    assert shop.json("undelivered", TOPIC, "--until", "-1h") == []
    assert "mine" in shop.says("undelivered", TOPIC)
    (found,) = shop.json("messages", TOPIC, "--key", "k")
    assert found["messageId"] == "mine"
    assert "mine" in shop.says("messages", TOPIC, "--path", "$.order", "--value", "1")
    shop.says("messages", TOPIC, code=2)
    wait_until(lambda: shop.json("trace", "mine") != [], "it is not traced")
    assert [each["status"] for each in shop.json("trace", "mine")] == ["DISCARDED"]
    assert "DISCARDED" in shop.says("trace", "mine", "--topic", TOPIC)


def test_lines(shop: Shop) -> None:
    lines = '{"line": 1}\n\nno json\n{"line": 4}'
    said = shop.json("publish", TOPIC, "--lines", "--key", "lines", text=lines, code=1)
    assert said["published"] == 2
    assert [(each["line"], each["status"]) for each in said["refused"]] == [(3, 400)]
    found = shop.json("messages", TOPIC, "--key", "lines")
    assert [each["message"] for each in found] == ['{"line": 1}', '{"line": 4}']
    shop.says("publish", TOPIC, "1", "--lines", code=2)
    assert "exist" in shop.says("publish", "shop.nothing", "1", code=4)


def test_retransmission(shop: Shop) -> None:
    shop.json("publish", TOPIC, "{}", "--id", "again")
    asked = ("retransmit", *ME, "--only", "discarded", "--id", "again")
    wait_until(lambda: shop.json(*asked, "--dry-run")["count"] == 1, "it is not listed")
    assert "Would send 1 messages" in shop.says(*asked, "--dry-run")
    assert shop.json(*asked)["count"] == 1
    positions = shop.json("retransmit", *ME, "--since", "-1h", "--dry-run")
    assert {each["partition"] for each in positions} == set(range(len(positions)))
    assert "would go on" in shop.says("retransmit", *ME, "--since", "-1h", "--dry-run")


@pytest.mark.parametrize(
    "misused",
    [
        (),
        ("--since", "soon"),
        ("--since", "-1h", "--reason", "x"),
        ("--only", "all"),
        ("--only", "all", "--since", "-1h", "--again"),
        ("--only", "discarded", "--key", "k"),
        ("--only", "nothing"),
    ],
)
def test_a_retransmission_that_cannot_be_is_misuse(place: Place, misused: tuple[str, ...]) -> None:
    assert place.run("retransmit", *ME, *misused).returncode == 2


def test_retransmissions_beside_live_traffic(shop: Shop) -> None:
    asked = ("retransmit", *ME, "--only", "all", "--since", "-1h", "--share", "0.5", "--rate", "7")
    begun = shop.json(*asked, "--dry-run")
    assert (begun["only"], begun["dryRun"]) == ("all", True)
    assert (begun["share"], begun["rate"]) == (0.5, 7.0)
    named = (*ME, begun["id"])
    assert begun["id"] in [each["id"] for each in shop.json("retransmission", "list", *ME)]
    assert begun["id"] in shop.says("retransmission", "list", *ME)
    assert shop.json("retransmission", "show", *named)["counts"]["written"] == 0
    cancelled = shop.json("retransmission", "cancel", *named)
    assert cancelled["id"] == begun["id"]
    ended = shop.json("retransmission", "wait", *named, code=1)
    assert ended["state"] == "CANCELLED"
    assert "exist" in shop.says("retransmission", "show", *ME, "none", code=4)


def test_how_subscriptions_do(shop: Shop) -> None:
    assert shop.json("subscription", "forecast", *ME)["subscriptionName"] == "me"
    # All that it got was refused, which is no fault of its own by Hermes' indicators.
    assert shop.json("subscription", "health", *ME)["status"] in {"HEALTHY", "NO_DATA"}
    assert isinstance(shop.json("alerts", "--all"), list)
    assert "SINCE" in shop.says("alerts")


def test_ledgers(shop: Shop, tmp_path: Path) -> None:
    job = shop.json("ledger", "request", *ME)
    assert job["kind"] == "LEDGER"
    assert job["id"] in [each["id"] for each in shop.json("jobs", "list")]
    shop.json("jobs", "cancel", job["id"])
    assert shop.json("ledger", "show", *ME, "--since", "-1h")["entries"] == []
    assert "PROVED" in shop.says("ledger", "show", *ME)
    assert shop.json("ledger", "check", *ME)["intact"]
    kept = ("--number", "3", "--hash", "0" * 64)
    assert "Entry 3" in shop.says("ledger", "check", *ME, *kept, code=1)
    exported, keys = tmp_path / "ledger.jsonl", tmp_path / "keys.pem"
    exported.write_text(shop.says("ledger", "export", *ME))
    keys.write_text(shop.says("ledger", "keys"))
    verify = ("ledger", "verify", str(exported), "--public-key", str(keys))
    assert shop.json(*verify)["entries"] == 0
    assert "Entry 3" in shop.says(*verify, *kept, code=1)


def test_reports(shop: Shop) -> None:
    # No job was done: there is no Spark.
    assert "finished" in shop.says("analytics", "undelivered", code=4)
    assert "finished" in shop.says("analytics", "failures", code=4)
    assert "finished" in shop.says("analytics", "latency", code=4)
    assert "finished" in shop.says("analytics", "slo", code=4)
    assert "--watch" in shop.says("analytics", "failures", "--since", "-1h", code=2)
    assert "Ledger of shop.orders/me" in shop.says("ledger", "report", *ME)
    assert shop.says("ledger", "report", *ME, "--csv").startswith("no,to,carried")
    assert shop.says("ledger", "report", *ME, "--html").rstrip().endswith("</html>")
    assert shop.json("ledger", "report", *ME)["entries"] == []


def test_simulations(shop: Shop) -> None:
    odd = '[{"type": "jsonpath", "path": "$.n", "matcher": "1"}]'
    given = ("--filters", odd, "--rate", "5", "--since", "-1h", "--no-wait")
    job = shop.json("simulate", *ME, *given)
    assert (job["kind"], job["scope"]["subscription"]) == ("SIMULATION", "me")
    shop.json("jobs", "cancel", job["id"])
    shop.says("simulate", *ME, "--filters", "{}", code=2)


def test_jobs(shop: Shop) -> None:
    job = shop.json("jobs", "request", "UNDELIVERED_ANALYTICS", "--since", "-1h", "--topic", TOPIC)
    assert shop.json("jobs", "show", job["id"])["scope"]["topic"] == TOPIC
    assert job["id"] in [each["id"] for each in shop.json("jobs", "list")]
    assert job["id"] in shop.says("jobs", "list")
    cancelled = shop.json("jobs", "cancel", job["id"])
    assert cancelled["state"] == "CANCELLED" or cancelled["cancelling"]
    assert shop.json("jobs", "wait", job["id"], code=1)["state"] == "CANCELLED"
    timed = shop.json("jobs", "request", "LATENCY_ANALYTICS", "--slo", "2.5")
    assert timed["scope"]["sloSeconds"] == 2.5
    shop.json("jobs", "cancel", timed["id"])
    assert "exist" in shop.says("jobs", "show", "none", code=4)


def test_keys_and_audit(shop: Shop) -> None:
    made = shop.json("keys", "create", "ci", "--scope", "read", "--api", shop.place.url)
    listed = shop.json("keys", "list", "--api", shop.place.url)
    assert [each["name"] for each in listed] == ["ci"]
    revoked = shop.json("keys", "revoke", made["id"], "--api", shop.place.url)
    assert revoked == {"id": made["id"]}
    events = shop.json("audit", "--kind", "key", "--since", "-1h")
    assert [each["action"] for each in events][-1] == "CREATED"
    assert made["id"] in shop.says("audit", "--kind", "key")


def test_any_call(shop: Shop) -> None:
    assert shop.json("call", "GET", "/topics?groupName=shop") == [TOPIC]
    assert shop.json("call", "post", "/topics/query", '{"query": {}}') == [TOPIC]
    assert shop.says("call", "GET", "/status/ping").strip() == "UP"
    assert shop.json("call", "POST", "/groups", '{"groupName": "called"}')
    assert shop.json("call", "DELETE", "/groups/called") is None
    assert "exist" in shop.says("call", "GET", "/topics/shop.nothing", code=4)
    shop.says("call", "GET", "topics", code=2)
    shop.says("call", "POST", "/groups", "{", code=2)


def test_top(shop: Shop) -> None:
    (row,) = shop.json("top", "--once", "--topic", TOPIC)
    assert (row["topic"], row["subscription"]) == ME
    assert "1 subscriptions" in shop.says("top", "--once", "--sort", "name")
    with shop.place.started("top", "--json", "--every", "0.2") as top:
        second = top.says("\n", after=top.says("\n"))
        assert second
        assert top.interrupt() == 0
        for line in top.output.splitlines():
            assert json.loads(line)[0]["subscription"] == "me"


def test_check(shop: Shop) -> None:
    parts = {each["name"]: each["problem"] for each in shop.json("check")["parts"]}
    assert parts["API"] == ""


def test_a_shell_completes_commands_and_names(shop: Shop) -> None:
    def completed(words: str) -> list[str]:
        asking = {
            "_ANGELIA_COMPLETE": "complete_bash",
            "COMP_WORDS": f"angelia {words}",
            "COMP_CWORD": str(len(words.split(" "))),
        }
        place = Place(home=shop.place.home, port=shop.place.port, settings=asking)
        return place.run().stdout.split()

    assert completed("to") == ["top", "topic"]
    assert completed("topic cha") == ["change"]
    assert completed("topic show sh") == [TOPIC]
    assert completed(f"subscription show {TOPIC} m") == ["me"]
    assert completed("subscription show no.topic m") == []
    assert "--partitions" in completed("topic create --p")


def test_every_command_is_tried_here() -> None:
    tests = Path(__file__).read_text()
    known = set(leaves(typer.main.get_command(app)))
    tried = {leaf for leaf in known if '", "'.join(leaf.split()).join('""') in tests}
    untried = known - ELSEWHERE - tried
    assert not untried, "give each of these a test in this file"


def test_completion_without_a_service_is_quick_and_silent(place: Place) -> None:
    asking = {
        "_ANGELIA_COMPLETE": "complete_bash",
        "COMP_WORDS": "angelia topic show s",
        "COMP_CWORD": "3",
    }
    done = Place(home=place.home, port=place.port, settings=asking).run()
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_top_shows_a_table_that_lives_until_ctrl_c(shop: Shop) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "app.cli.main", "top", "--every", "0.2"]
    with subprocess.Popen(
        command,
        env=shop.place.environment | {"TERM": "xterm", "COLUMNS": "150", "LINES": "40"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        try:
            seen = reads(ours, f"{TOPIC}/me", times=3)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0, seen
        finally:
            process.kill()
            os.close(ours)


def reads(terminal: int, text: str, *, times: int) -> str:
    """What a terminal shows until `text` was written so many times."""
    seen, deadline = "", time.monotonic() + PATIENCE_S
    while seen.count(text) < times:
        ready, _, _ = select.select([terminal], [], [], 1.0)
        assert time.monotonic() < deadline, seen
        seen += os.read(terminal, 65_536).decode(errors="replace") if ready else ""
    return seen
