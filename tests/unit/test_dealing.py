import pytest

from tests.dealing import dealt

SPARK = [f"tests/spark/test_a.py::test_{number}" for number in range(4)]
PARTS = [f"tests/integration/api/openapi/test_schemathesis.py::test_p[{part}]" for part in "abc"]
FILES = [[f"tests/e2e/test_{file}.py::test_{n}" for n in range(2)] for file in "abc"]
LONG = [*PARTS, *(id_ for file in FILES for id_ in file)]
SHORT = [f"tests/unit/test_a.py::test_{number}" for number in range(40)]
ALL = [*SHORT[:20], *LONG, *SPARK, *SHORT[20:]]
PAGES = [f"tests/e2e/console/test_{file}.py::test_a" for file in "ab"]
COMMANDS = [f"tests/e2e/test_cli_{file}.py::test_a" for file in "ab"]
SERVED = [*COMMANDS, *ALL, *PAGES]


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 100])
@pytest.mark.parametrize("ids", [ALL, SERVED, SPARK, LONG, SHORT, SHORT[:1], []])
def test_each_test_is_dealt_once(ids: list[str], processes: int) -> None:
    assert sorted(dealt(ids, processes)) == sorted(ids)


def test_who_runs_them_alone_has_them_in_their_own_order() -> None:
    assert dealt(ALL, 1) == ALL


def test_each_of_three_begins_with_what_takes_long() -> None:
    order = dealt(ALL, 3)
    parts = [order[:17], order[17:35], order[35:]]
    assert len(ALL) == 53
    assert parts[0][:4] == SPARK
    assert parts[1][:4] == [PARTS[0], PARTS[2], *FILES[1]]
    assert parts[2][:5] == [PARTS[1], *FILES[0], *FILES[2]]
    assert not set(SPARK) & set(parts[1] + parts[2])


def test_a_file_of_whole_services_stays_together() -> None:
    order = dealt(ALL, 3)
    for file in FILES:
        first = order.index(file[0])
        assert order[first : first + 2] == file


def test_other_files_are_mixed_and_each_stays_whole() -> None:
    files = [[f"tests/unit/test_{file}.py::test_{n}" for n in range(3)] for file in "abcdefgh"]
    ids = [id_ for file in files for id_ in file]
    order = dealt(ids, 2)
    assert order != ids
    assert sorted(order[place : place + 3] for place in range(0, len(ids), 3)) == files


def test_tests_that_share_something_stay_together() -> None:
    shared = [f"tests/architecture/test_{file}.py::test_{n}" for file in "abc" for n in range(3)]
    others = [f"tests/unit/test_{file}.py::test_a" for file in "abcdefgh"]
    order = dealt([*others[:4], *shared, *others[4:]], 2)
    first = order.index(shared[0])
    assert order[first : first + len(shared)] == shared


def test_tests_that_use_one_running_service_stay_together() -> None:
    order = dealt(SERVED, 3)
    first = order.index(PAGES[0])
    assert order[first : first + 4] == [*PAGES, *COMMANDS]
