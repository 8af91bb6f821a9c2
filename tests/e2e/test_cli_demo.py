import pytest

from tests.e2e.cli import Place, wait_until


def row(output: str, subscriber: str) -> list[str]:
    """The cells of a subscriber's row of the closing table."""
    (line,) = [each for each in output.splitlines() if each.strip().startswith(f"{subscriber} ")]
    return line.split()


@pytest.mark.long
def test_the_demo_brings_its_own_service_and_accounts_for_every_message(place: Place) -> None:
    answer = place.run("demo", "--messages", "300")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "Every message is accounted for." in answer.stdout
    # published, delivered, retries, discarded, missing, duplicates
    assert row(answer.stdout, "healthy")[1:3] == ["300", "300"]
    assert row(answer.stdout, "healthy")[4:6] == ["0", "0"]
    assert row(answer.stdout, "flaky")[2] == "300"
    assert int(row(answer.stdout, "flaky")[3]) > 0
    assert row(answer.stdout, "broken")[1:6] == ["300", "285", "0", "15", "0"]
    assert "15 discarded: Message sending failed with status code:400" in answer.stdout
    assert not place.home.exists(), "it has left the home of the real service alone"


def test_the_demo_uses_the_service_that_runs_and_cleans_up_after_itself(
    served_place: Place,
) -> None:
    before = served_place.run("topic", "list", "--json")
    assert before.returncode == 0, before.stderr
    answer = served_place.run("demo", "--messages", "40")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"at {served_place.url}" in answer.stdout
    assert "Every message is accounted for." in answer.stdout
    assert row(answer.stdout, "healthy")[1:3] == ["40", "40"]
    assert served_place.run("topic", "list", "--json").stdout == before.stdout


@pytest.mark.long
def test_the_demo_fails_and_says_what_is_missing_when_nothing_is_delivered(place: Place) -> None:
    with place.started("api") as api:
        wait_until(lambda: is_ready(place), "no API")
        answer = place.run("demo", "--messages", "20")
        assert answer.returncode == 1
        assert "healthy: 20 neither delivered nor discarded" in answer.stdout
        assert "Not every message is accounted for." in answer.stderr
        assert api.interrupt() == 0, api.output


def test_the_demo_does_not_replace_an_api_that_was_asked_for(place: Place) -> None:
    answer = place.run("demo", "--api", place.url)
    assert answer.returncode == 1
    assert f"No API is ready at {place.url}" in answer.stderr


def is_ready(place: Place) -> bool:
    return place.run("topic", "list").returncode == 0
