import json

from tests.e2e.cli import Place, wait_until

TOPIC = "traced.orders"


def test_a_message_is_traced_from_its_publication_to_its_discard(served_place: Place) -> None:
    place = served_place
    with place.started("listen", "--topic", TOPIC, "--name", "me", "--status", "400") as listen:
        listen.says("Listening")
        message_id = place.run("publish", TOPIC, '{"order": 1}').stdout.strip()
        wait_until(lambda: traced(place, message_id) == ["DISCARDED"], "it is not traced")
        shown = place.run("trace", message_id, "--topic", TOPIC, "--subscription", "me").stdout
        assert "400" in shown
        listen.interrupt()
    assert "Nothing is known" in place.run("trace", "none").stdout
    assert place.run("trace", message_id, "--subscription", "me").returncode == 2


def traced(place: Place, message_id: str) -> list[str]:
    found = place.run("trace", message_id, "--json")
    return [each["status"] for each in json.loads(found.stdout)]
