"""The text that Prometheus reads, as its own parser sees it."""

import asyncio
from collections.abc import Iterable

import pytest
from prometheus_client import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from app.metrics import catalogue
from app.metrics.catalogue import Metric, MetricKind
from app.metrics.exposition import LINES_PER_TURN, exposition
from app.metrics.process import ProcessMetrics
from app.metrics.readings import Distribution, Labels, Readings

SUBSCRIPTION = ("shop", "orders", "billing")
LATENCY = Distribution((0.5, 1.0), (2, 1, 4), 9.5)


async def families(readings: Readings) -> list[Family]:
    return list(text_string_to_metric_families((await exposition(readings)).decode()))


def samples(read: Iterable[Family]) -> dict[tuple[str, tuple[str, ...]], float]:
    return {(s.name, tuple(s.labels.values())): s.value for f in read for s in f.samples}


async def test_each_metric_of_the_list_is_read_back_as_it_was_written() -> None:
    readings = Readings()
    for number, metric in enumerate(catalogue.ALL):
        value = LATENCY if metric.kind is MetricKind.HISTOGRAM else number
        readings.add(metric, value, tuple(f"v{n}" for n, _ in enumerate(metric.labels)))
    read = await families(readings)
    assert [(f.name, f.type) for f in read] == [
        (m.name.removesuffix("_total") if m.kind is MetricKind.COUNTER else m.name, m.kind)
        for m in catalogue.ALL
    ]
    for number, (metric, family) in enumerate(zip(catalogue.ALL, read, strict=True)):
        assert set(family.samples[0].labels) - {"le"} == set(metric.labels)
        assert metric.kind is MetricKind.HISTOGRAM or family.samples[0].value == number


async def test_names_are_shown_whatever_characters_they_have() -> None:
    readings = Readings()
    names = ('a"b', "c\\d", "e\nf")
    readings.add(catalogue.DELIVERED, 1, names)
    assert samples(await families(readings)) == {(catalogue.DELIVERED.name, names): 1.0}


async def test_the_buckets_of_a_histogram_count_all_below_them() -> None:
    readings = Readings()
    readings.add(catalogue.ACK_ALL_LATENCY, LATENCY, ("shop", "orders"))
    name, topic = catalogue.ACK_ALL_LATENCY.name, ("shop", "orders")
    assert samples(await families(readings)) == {
        (f"{name}_bucket", (*topic, "0.5")): 2,
        (f"{name}_bucket", (*topic, "1.0")): 3,
        (f"{name}_bucket", (*topic, "+Inf")): 7,
        (f"{name}_sum", topic): 9.5,
        (f"{name}_count", topic): 7,
    }


async def test_large_counts_lose_no_digit() -> None:
    readings = Readings()
    readings.add(catalogue.DELIVERED, 2**53 - 1, SUBSCRIPTION)
    assert str(2**53 - 1).encode() in await exposition(readings)


async def test_the_loop_has_its_turns_while_much_is_written() -> None:
    readings = Readings()
    for number in range(3 * LINES_PER_TURN):
        readings.add(catalogue.DELIVERED, number, ("shop", "orders", str(number)))
    writing = asyncio.ensure_future(exposition(readings))
    turns = 0
    while not writing.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 3


@pytest.mark.parametrize("labels", [(), ("shop",), (*SUBSCRIPTION, "x")])
def test_a_reading_has_a_value_for_each_label(labels: Labels) -> None:
    with pytest.raises(ValueError, match="has the labels"):
        Readings().add(catalogue.DELIVERED, 1, labels)


async def test_a_process_tells_its_version_cpu_memory_and_files() -> None:
    readings = Readings()
    ProcessMetrics().read(readings)
    read = {name: value for (name, _), value in samples(await families(readings)).items()}
    assert read["angelia_build_info"] == 1
    assert read["process_resident_memory_bytes"] > 1_000_000
    assert read["process_cpu_seconds_total"] > 0
    assert read["process_open_fds"] > 0


@pytest.mark.parametrize("metric", catalogue.ALL, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    assert metric.name.startswith(("hermes_frontend_", "hermes_consumers_", "angelia_", "process_"))
    for unit in ("seconds", "bytes"):
        assert (metric.unit == unit) == (f"_{unit}" in metric.name.removesuffix("_total"))


def test_no_two_metrics_have_one_name() -> None:
    assert len(catalogue.BY_NAME) == len(catalogue.ALL)
