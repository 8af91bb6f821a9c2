from app.console.pages.move import moves_of


def test_a_move_says_what_is_sent_again_and_what_is_skipped() -> None:
    current = {0: {"currentOffset": 10}, 1: {"currentOffset": 10}, 2: {}}
    wanted = [{"partition": each, "offset": offset} for each, offset in enumerate((4, 15, 7, 9))]
    moves = moves_of(current, wanted)
    assert [each["again"] for each in moves] == [6, 0, 0, 0]
    assert [each["skipped"] for each in moves] == [0, 5, 0, 0]
    assert [each["before"] for each in moves] == [10, 10, None, None]
