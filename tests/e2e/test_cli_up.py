import json
import os
import signal
import socket
from dataclasses import replace

import httpx

from tests.e2e.cli import PATIENCE_S, Place, wait_until
from tests.fakes.hostile_directory import HostileDirectory

TOPIC = "shop.orders"


def publish(place: Place, body: str, topic: str = TOPIC) -> httpx.Response:
    """As `curl URL -d BODY` does: with the content type of a form."""
    return httpx.post(
        f"{place.url}/topics/{topic}",
        content=body,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        trust_env=False,
        timeout=PATIENCE_S,
    )


def subscriptions(place: Place) -> list[str]:
    answer = place.run("subscription", "list", TOPIC, "--json")
    assert answer.returncode == 0, answer.stderr
    return [each["name"] for each in json.loads(answer.stdout)]


def test_a_message_travels_from_curl_to_listen_and_ctrl_c_leaves_nothing(place: Place) -> None:
    """The service is started in a directory with hostile files: it must run none of them."""
    hostile = HostileDirectory(place.home.parent / "hostile")
    there = replace(place, directory=hostile.path, with_java=True)
    with there.started("up") as up:
        up.says(f"Angelia is ready at {place.url}")
        up.says(f"{place.url}/console")
        up.says(str(place.home))
        with place.started("listen", "--topic", TOPIC, "--name", "me") as listen:
            listen.says(f"Listening to {TOPIC} as me")
            answer = publish(place, '{"order": 1}')
            assert answer.status_code == 201
            listen.says(answer.headers["Hermes-Message-Id"])
            listen.says('"order": 1')
            assert subscriptions(place) == ["me"]
            assert listen.interrupt() == 0
        assert subscriptions(place) == []
        # One of each: what is forked looks like its parent for a moment.
        kinds = ("app", "workers", "spark")
        wait_until(
            lambda: [len(place.processes(each)) for each in kinds] == [1, 1, 1], "one of each"
        )
        assert up.interrupt() == 0, up.output
        assert "Traceback" not in up.output
    assert hostile.run == ""


def test_listen_for_programs_writes_a_line_of_json_for_each_message(served_place: Place) -> None:
    topic = "read.orders"
    with served_place.started("listen", "--topic", topic, "--json") as listen:
        listen.says("Listening")
        publish(served_place, '{"order": 1}', topic)
        publish(served_place, '"plain"', topic)
        listen.says('"body": {"order": 1}}\n')
        listen.says('"body": "plain"}\n')
        listen.interrupt()


def test_a_kept_subscription_waits_for_the_next_listen(served_place: Place) -> None:
    me = ("listen", "--topic", "kept.orders", "--name", "me")
    with served_place.started(*me, "--keep") as listen:
        listen.says("Listening")
        assert listen.interrupt() == 0
    publish(served_place, '{"order": 2}', "kept.orders")
    with served_place.started(*me) as listen:
        listen.says('"order": 2')
        listen.interrupt()


def test_what_is_killed_is_started_again_and_a_killed_up_leaves_messages_but_no_process(
    place: Place,
) -> None:
    with place.started("up") as up:
        up.says("Angelia is ready")
        with place.started("listen", "--topic", TOPIC) as listen:
            listen.says("Listening")
            publish(place, '{"order": 1}')
            listen.says('"order": 1')
            kill(place, "workers")
            up.says("The worker ended (signal 9); starting it in 1 s.")
            publish(place, '{"order": 2}')
            listen.says('"order": 2')
            listen.interrupt()
        kill(place, "app")
        up.says("The API ended (signal 9); starting it in 1 s.")
        wait_until(lambda: place.run("publish", TOPIC, "{}").returncode == 0, "no API again")
        killed = postgres(place)
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: postgres(place) not in {killed, 0}, "no PostgreSQL again")
        wait_until(lambda: place.run("publish", TOPIC, "{}").returncode == 0, "no database again")
        up.process.kill()
        up.process.wait()
        wait_until(place.is_deserted, "its children went on")
    with place.started("up") as up:
        up.says("Angelia is ready")
        found = place.run("messages", TOPIC, "--path", "$.order", "--value", "2", "--json")
        assert found.returncode == 0, found.stderr
        assert [each["message"] for each in json.loads(found.stdout)] == ['{"order": 2}']
        assert up.end(signal.SIGTERM) == 0, up.output


def test_a_port_in_use_is_said_with_the_way_around_it(place: Place) -> None:
    with socket.create_server(("127.0.0.1", place.port)):
        answer = place.run("up")
    assert answer.returncode == 1
    assert f"Port {place.port} on 127.0.0.1 is in use" in answer.stderr
    assert "--port" in answer.stderr


def test_a_second_up_in_the_same_home_is_told_of_the_first(served_place: Place) -> None:
    answer = served_place.run("up", "--port", "0")
    assert answer.returncode == 1
    assert "Another `angelia up` is running" in answer.stderr
    assert served_place.url in answer.stderr


def test_ctrl_c_before_it_is_ready_ends_it_too(place: Place) -> None:
    with place.started("up") as up:
        up.says("Starting Angelia")
        assert up.interrupt() == 0, up.output


def postgres(place: Place) -> int:
    """Return the process id of the service's PostgreSQL as its file says; 0 without a file."""
    try:
        lines = (place.home / "postgres" / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return int(lines[0]) if lines else 0


def kill(place: Place, module: str) -> None:
    (process,) = place.processes(module)
    process.kill()
