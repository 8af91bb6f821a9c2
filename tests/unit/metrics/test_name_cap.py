"""How many subjects have labels of their own, and what becomes of the others."""

from collections.abc import Mapping

from app.metrics import catalogue
from app.metrics.catalogue import Metric
from app.metrics.name_cap import OTHER, NameCap
from app.metrics.readings import Distribution, Readings, Value

Read = dict[tuple[str, ...], Value]


LATENCY = Distribution((0.5, 1.0), (2, 1, 4), 9.5)


def observed(*counts: int) -> Distribution:
    return Distribution((0.5, 1.0), counts, float(sum(counts)))


def collected(
    cap: NameCap, values: Mapping[str, Value], metric: Metric = catalogue.DELIVERED
) -> Read:
    """What is shown of the subscriptions of one topic."""
    readings = Readings()
    with cap.collecting(readings) as capped:
        for name, value in values.items():
            capped.add(metric, value, ("shop", "orders", name))
    return {labels[2:]: value for _, read in readings for labels, value in read}


def test_the_first_have_their_names_and_the_others_are_summed_up() -> None:
    cap = NameCap(2)
    read = collected(cap, {"a": 1, "b": 2, "c": 3, "d": 4})
    assert read == {("a",): 1, ("b",): 2, (OTHER,): 7}


def test_who_has_a_name_keeps_it_whoever_comes() -> None:
    cap = NameCap(1)
    collected(cap, {"b": 1})
    assert collected(cap, {"a": 5, "b": 2}) == {("b",): 2, (OTHER,): 5}


def test_the_sum_of_a_counter_never_falls() -> None:
    cap = NameCap(0)
    sums = [
        collected(cap, values)[(OTHER,)]
        for values in ({"a": 5, "b": 3}, {"a": 6, "b": 3}, {"b": 4}, {"b": 4, "a": 2})
    ]
    assert sums == [8, 9, 10, 12]


def test_a_name_that_becomes_free_is_not_given_to_who_was_summed_up() -> None:
    cap = NameCap(1)
    collected(cap, {"a": 1, "b": 2})
    collected(cap, {"b": 2})
    assert collected(cap, {"b": 3, "c": 4}) == {("c",): 4, (OTHER,): 3}


def test_of_what_is_a_state_the_worst_is_shown() -> None:
    cap = NameCap(0)
    assert collected(cap, {"a": 1, "b": 2, "c": 0}, catalogue.MODE) == {(OTHER,): 2}
    assert collected(cap, {"a": 1, "b": 2}, catalogue.LAG) == {(OTHER,): 3}


def test_histograms_of_those_that_are_summed_up_are_one_that_never_falls() -> None:
    cap = NameCap(1)
    collected(cap, {"named": LATENCY}, catalogue.LATENCY)
    sums = [
        collected(cap, {"named": LATENCY, **values}, catalogue.LATENCY)[(OTHER,)]
        for values in (
            {"a": observed(2, 1, 4), "b": observed(1, 0, 0)},
            {"a": observed(2, 2, 4), "b": observed(1, 0, 0)},
            {"b": observed(0, 0, 1)},
            {"a": observed(1, 0, 0), "b": observed(0, 1, 1)},
        )
    ]
    assert sums == [observed(3, 1, 4), observed(3, 2, 4), observed(3, 2, 5), observed(4, 3, 5)]


def test_other_labels_are_kept_apart() -> None:
    cap, readings = NameCap(0), Readings()
    with cap.collecting(readings) as capped:
        for name, status, count in (("a", "2xx", 1), ("b", "2xx", 2), ("b", "5xx", 4)):
            capped.add(catalogue.STATUS_CODES, count, ("shop", "orders", name), status)
    assert dict(next(iter(readings))[1]) == {
        (OTHER, OTHER, OTHER, "2xx"): 3,
        (OTHER, OTHER, OTHER, "5xx"): 4,
    }


def test_a_sum_counts_nothing_twice_when_some_could_not_be_read_for_a_while() -> None:
    cap = NameCap(0)
    collected(cap, {"a": 5, "b": 3})
    assert collected(cap, {}) == {(OTHER,): 8}
    assert collected(cap, {"a": 6, "b": 3}) == {(OTHER,): 9}
