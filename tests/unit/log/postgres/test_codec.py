from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from app.log.postgres.codec import packed, partition_of_key, unpacked


@given(st.lists(st.tuples(st.binary(), st.binary())))
def test_headers_are_unpacked_as_they_were_packed(headers: list[tuple[bytes, bytes]]) -> None:
    assert unpacked(packed(headers)) == headers


def test_no_headers_take_no_room() -> None:
    assert packed([]) == b""


def test_the_partition_of_a_key_never_changes() -> None:
    # A release that moved keys would break their order: these are on disks.
    keys = [b"", b"a", b"repository/17", b"\xff\x00"]
    assert [partition_of_key(key, 8) for key in keys] == [5, 5, 1, 1]


def test_keys_are_spread_evenly() -> None:
    counts = Counter(partition_of_key(b"key-%d" % n, 8) for n in range(8_000))
    assert all(850 <= counts[index] <= 1_150 for index in range(8))
