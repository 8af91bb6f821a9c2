"""What `angelia simulate` shows to people."""

import pytest

from app.cli.commands.simulate import show

AN_EXAMPLE = {"partition": 2, "offset": 31, "timestamp": 1_767_268_800_000, "size": 9}


def test_messages_that_differ_are_listed_by_what_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    added = [{"messageId": "m-1", **AN_EXAMPLE}]
    show({"result": {"matched": 7}, "addedMessages": added, "droppedMessages": []})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if "matched" in line] == [["matched", "7"]]
    assert "Messages that only these filters want:" in lines
    [[name, partition, offset, *at, size]] = [line.split() for line in lines if "m-1" in line]
    assert (name, partition, offset, size) == ("m-1", "2", "31", "9")
    assert ":00.000" in " ".join(at)
    assert not any("as they are" in line for line in lines)


def test_a_simulation_that_is_not_done_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    show({"addedMessages": [], "droppedMessages": []})
    assert capsys.readouterr().out.split() == ["FIELD", "VALUE"]
