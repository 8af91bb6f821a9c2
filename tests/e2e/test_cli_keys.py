import json
import re
from dataclasses import replace

import pytest

from tests.e2e.cli import Place

# Each command is a process of its own, and there are many.
pytestmark = pytest.mark.timeout(300)

TOPIC = "shop.orders"


def test_keys_are_made_without_a_service_and_let_commands_in(place: Place) -> None:
    guarded = replace(place, settings={"ANGELIA_AUTH": "keys"})
    # Nothing is there yet, not even a database.
    admin = guarded.run("keys", "create", "me", "--scope", "admin")
    assert admin.returncode == 0, admin.stderr
    token = admin.stdout.strip()
    assert re.fullmatch(r"ang_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", token)
    mine = replace(guarded, settings={**guarded.settings, "ANGELIA_API_KEY": token})
    with guarded.started("up") as up:
        up.says("Angelia is ready")
        refused = guarded.run("topic", "list")
        assert refused.returncode == 5
        assert "ANGELIA_API_KEY" in refused.stderr
        assert mine.run("topic", "create", TOPIC).returncode == 0
        wanted = ("keys", "create", "shop", "--scope", "publish:shop.*", "--days", "30", "--json")
        shop = json.loads(mine.run(*wanted).stdout)
        assert shop["expiresAt"]
        with_key = ("--api-key", shop["key"])
        assert guarded.run(*with_key, "publish", TOPIC, "1").returncode == 0
        assert "PERMISSION" not in guarded.run(*with_key, "topic", "list").stderr
        assert guarded.run(*with_key, "topic", "delete", TOPIC).returncode == 5
        with mine.started("listen", "--topic", TOPIC) as listen:
            listen.says("Listening")
            assert mine.run("publish", TOPIC, '{"order": 1}').returncode == 0
            listen.says('"order": 1')
            listen.interrupt()
        listed = mine.run("keys", "list").stdout
        assert shop["id"] in listed
        assert shop["key"] not in listed
        assert mine.run("keys", "revoke", shop["key"]).returncode == 0
        assert guarded.run(*with_key, "publish", TOPIC, "2").returncode == 5
        for asking in (mine, guarded):
            unknown = asking.run("keys", "revoke", "0" * 12)
            assert (unknown.returncode, unknown.stdout) == (4, "")
        by_operator = json.loads(guarded.run("keys", "list", "--json").stdout)
        assert {key["createdBy"] for key in by_operator} == {"operator at the command line", "me"}
        assert up.interrupt() == 0, up.output
    # No key is shown: neither of these two, nor the key of a first start, which had one already.
    assert "ang_" not in up.output
    for secret in (token, shop["key"]):
        # The secret part may itself contain `_`.
        assert secret.split("_", 2)[2] not in up.output


def test_the_first_key_is_shown_once_at_the_first_start(place: Place) -> None:
    guarded = replace(place, settings={"ANGELIA_AUTH": "keys"})
    with guarded.started("up") as up:
        up.says("ang_")
        up.says("Angelia is ready")
        found = re.search(r"ang_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", up.output)
        assert found
        assert up.output.count(found[0]) == 1
        assert guarded.run("--api-key", found[0], "topic", "list").returncode == 0
        assert up.interrupt() == 0, up.output
