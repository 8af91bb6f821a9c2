"""How many tasks Spark runs at a time, because each may have connections to PostgreSQL."""

from collections.abc import Mapping

import pytest

from spark.limits import limits

TASKS_MAX = 8
# So many has this machine.
CORES = 16


def limited(master: str, **given: str) -> Mapping[str, str]:
    """What is replaced; names are without `spark.`, and `__` stands for a dot."""
    settings = {f"spark.{name.replace('__', '.')}": value for name, value in given.items()}
    found = limits({"spark.master": master, **settings}, cores=CORES, tasks_max=TASKS_MAX)
    return {name.removeprefix("spark."): value for name, value in found.items()}


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[*]", "local[8]"),
        ("local[9]", "local[8]"),
        ("local[9,3]", "local[8,3]"),
        ("local[*, 3]", "local[8, 3]"),
    ],
)
def test_a_session_on_this_machine_has_no_more_threads(master: str, expected: str) -> None:
    assert limited(master) == {"master": expected}


@pytest.mark.parametrize("master", ["local", "local[8]", "local[8,3]"])
def test_fewer_threads_stay_as_they_are(master: str) -> None:
    assert limited(master) == {}


def test_on_a_machine_with_fewer_cores_all_are_used() -> None:
    assert limits({"spark.master": "local[*]"}, cores=2, tasks_max=TASKS_MAX) == {}


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host", ""])
def test_a_session_on_a_cluster_has_no_more_cores(master: str) -> None:
    expected = {"cores.max": "8", "dynamicAllocation.maxExecutors": "8"}
    assert limited(master) == expected
    assert limited(master, cores__max="9", dynamicAllocation__maxExecutors="9") == expected


def test_lower_limits_of_the_operator_stay_as_they_are() -> None:
    assert limited("yarn", cores__max="3", dynamicAllocation__maxExecutors="8") == {}


def test_executors_with_more_cores_are_fewer() -> None:
    found = limited(
        "yarn",
        executor__cores="3",
        executor__instances="50",
        dynamicAllocation__minExecutors="3",
        dynamicAllocation__initialExecutors="2",
    )
    assert found == {
        "cores.max": "8",
        "executor.instances": "2",
        "dynamicAllocation.maxExecutors": "2",
        "dynamicAllocation.minExecutors": "2",
    }


def test_without_a_number_of_executors_spark_starts_two() -> None:
    assert limited("yarn", executor__cores="5")["executor.instances"] == "1"


def test_one_executor_has_no_more_cores_than_all_may_have() -> None:
    found = limited("yarn", executor__cores="64")
    assert (found["executor.cores"], found["executor.instances"]) == ("8", "1")


def test_tasks_that_take_several_cores_may_use_more_cores() -> None:
    assert limited("local[*]", task__cpus="2") == {}
    assert limited("local[64]", task__cpus="2") == {"master": "local[16]"}
    found = limited("yarn", task__cpus="2", executor__cores="4")
    assert (found["cores.max"], found["dynamicAllocation.maxExecutors"]) == ("16", "4")
