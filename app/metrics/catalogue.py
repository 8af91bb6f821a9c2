"""The list of all metrics. Processes show no other metrics.

A metric that Hermes also has gets Hermes' name, so that dashboards for Hermes continue to work. To
add a metric, add it to this list, and update `docs/metrics.md` as that file describes.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class MetricKind(StrEnum):
    """How a metric changes, in the terms of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class ShownBy(StrEnum):
    """Which processes show a metric."""

    API = "each API process"
    CLUSTER = "each API process that manages, the same everywhere"
    WORKER = "each worker"
    ALL = "each API process and worker"


class Combined(StrEnum):
    """How the values of several topics or subscriptions with the same labels become one value."""

    SUM = "sum"
    HIGHEST = "highest"
    LOWEST = "lowest"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Metric:
    """One metric.

    Attributes:
        name: its name for Prometheus.
        kind: how its value changes.
        unit: the unit of its values.
        help: its meaning.
        shown: which processes show the metric.
        labels: the names of its labels.
        combined: how the values of several topics or subscriptions become one value.
    """

    name: str
    kind: MetricKind
    unit: str
    help: str
    shown: ShownBy
    labels: tuple[str, ...] = ()
    combined: Combined = Combined.SUM


_TOPIC: Final = ("group", "topic")
_SUBSCRIPTION: Final = ("group", "topic", "subscription")


def _frontend(
    name: str,
    unit: str,
    text: str,
    *,
    kind: MetricKind = MetricKind.COUNTER,
    labels: tuple[str, ...] = (),
) -> Metric:
    return Metric(
        name=f"hermes_frontend_topic_{name}",
        kind=kind,
        unit=unit,
        help=text,
        shown=ShownBy.API,
        labels=(*_TOPIC, *labels),
    )


def _consumers(
    name: str,
    unit: str,
    text: str,
    *,
    kind: MetricKind = MetricKind.COUNTER,
    labels: tuple[str, ...] = (),
) -> Metric:
    return Metric(
        name=f"hermes_consumers_subscription_{name}",
        kind=kind,
        unit=unit,
        help=text,
        shown=ShownBy.WORKER,
        labels=(*_SUBSCRIPTION, *labels),
    )


def _cluster(
    name: str,
    unit: str,
    text: str,
    *,
    kind: MetricKind = MetricKind.GAUGE,
    combined: Combined = Combined.SUM,
) -> Metric:
    return Metric(
        name=f"angelia_subscription_{name}",
        kind=kind,
        unit=unit,
        help=text,
        shown=ShownBy.CLUSTER,
        labels=_SUBSCRIPTION,
        combined=combined,
    )


def _other(
    name: str,
    unit: str,
    text: str,
    *,
    shown: ShownBy = ShownBy.ALL,
    kind: MetricKind = MetricKind.COUNTER,
    labels: tuple[str, ...] = (),
) -> Metric:
    return Metric(name=name, kind=kind, unit=unit, help=text, shown=shown, labels=labels)


# ---- publishing: counted by each API process since its start ------------------------------------

PUBLISH_REQUESTS: Final = _frontend(
    "requests_total", "requests", "Requests to publish, a batch as one, whatever their answer"
)
PUBLISH_STATUS_CODES: Final = _frontend(
    "http_status_codes_total",
    "requests",
    "Requests to publish by the status of their answer",
    labels=("status_code",),
)
PUBLISHED: Final = _frontend("published_total", "messages", "Messages that were acknowledged")
PUBLISHED_BYTES: Final = _frontend(
    "throughput_bytes_total", "bytes", "Bodies of messages that were acknowledged"
)
ACK_LEADER_LATENCY: Final = _frontend(
    "ack_leader_latency_seconds",
    "seconds",
    "How long it took to store a message, where one replica is enough (ack LEADER)",
    kind=MetricKind.HISTOGRAM,
)
ACK_ALL_LATENCY: Final = _frontend(
    "ack_all_latency_seconds",
    "seconds",
    "How long it took to store a message on all replicas in sync (ack ALL)",
    kind=MetricKind.HISTOGRAM,
)

# ---- delivering: counted by each worker since its start ------------------------------------------

DELIVERED: Final = _consumers(
    "delivered_total", "messages", "Messages that this worker delivered since it began"
)
DISCARDED: Final = _consumers(
    "discarded_total", "messages", "Messages that this worker gave up; they are undelivered"
)
FILTERED_OUT: Final = _consumers(
    "filtered_out_total", "messages", "Messages that the subscription's filters left out"
)
UNJUDGED: Final = _consumers(
    "unjudged_total",
    "messages",
    "Messages left out because a filter could not judge them: not JSON, or too much to look at",
)
INTERNAL_ERRORS: Final = _consumers(
    "internal_errors_total",
    "errors",
    "Unexpected errors of the worker, each of which cost at most the message that raised it",
)
DELIVERED_BYTES: Final = _consumers(
    "throughput_bytes_total", "bytes", "Bodies of messages that this worker delivered"
)
STATUS_CODES: Final = _consumers(
    "http_status_codes_total",
    "requests",
    "Answers of the subscriber by class of status: 2xx, 4xx, 5xx, other",
    labels=("status_code",),
)
TIMEOUTS: Final = _consumers(
    "timeouts_total", "requests", "Requests that were not answered within requestTimeout"
)
OTHER_ERRORS: Final = _consumers(
    "other_errors_total", "requests", "Requests without an answer for any other reason"
)
FAILURES: Final = _consumers(
    "failures_total", "requests", "Requests that were not answered with a 2xx"
)
RETRIES: Final = _consumers(
    "retries_total", "requests", "Requests that were not the first for their message"
)
LATENCY: Final = _consumers(
    "latency_seconds",
    "seconds",
    "How long requests took, connecting first where that was needed, whatever came of them",
    kind=MetricKind.HISTOGRAM,
)
BATCHES: Final = _consumers("batches_total", "requests", "Requests with a batch of messages")
INFLIGHT: Final = _consumers(
    "inflight", "requests", "Requests under way from this worker", kind=MetricKind.GAUGE
)

# ---- subscriptions: over all workers, since the creation of the subscription --------------------

LIFETIME_DELIVERED: Final = _cluster(
    "delivered_total",
    "messages",
    "Messages delivered since the subscription was created, each once, whatever died meanwhile",
    kind=MetricKind.COUNTER,
)
LIFETIME_DISCARDED: Final = _cluster(
    "discarded_total",
    "messages",
    "Messages given up since the subscription was created, each once",
    kind=MetricKind.COUNTER,
)
LIFETIME_FILTERED: Final = _cluster(
    "filtered_total",
    "messages",
    "Messages filtered out since the subscription was created, each once",
    kind=MetricKind.COUNTER,
)
LIFETIME_BYTES: Final = _cluster(
    "delivered_bytes_total",
    "bytes",
    "Bodies of messages delivered since the subscription was created, each once",
    kind=MetricKind.COUNTER,
)
LAG: Final = _cluster(
    "lag_messages", "messages", "Messages between what is finished and the ends of the partitions"
)
CLUSTER_INFLIGHT: Final = _cluster("inflight_requests", "requests", "Requests under way")
PARKED: Final = _cluster("parked_messages", "messages", "Messages that wait for another attempt")
OUTPUT_RATE: Final = _cluster(
    "output_rate", "requests per second", "What leaves at most now, below the limit"
)
MODE: Final = _cluster(
    "mode",
    "mode",
    "How the subscriber is treated: 0 NORMAL, 1 SLOW, 2 HEARTBEAT (considered down)",
    combined=Combined.HIGHEST,
)
CIRCUIT: Final = _cluster(
    "circuit",
    "state",
    "Where it has a circuit breaker: 0 CLOSED, 1 HALF_OPEN, 2 OPEN",
    combined=Combined.HIGHEST,
)
SUSPENDED: Final = _cluster(
    "suspended",
    "boolean",
    "1 while it is suspended, and gets nothing",
    combined=Combined.HIGHEST,
)
UNHEALTHY: Final = _cluster(
    "unhealthy",
    "boolean",
    "1 while something is wrong with it, as `…/health` says",
    combined=Combined.HIGHEST,
)
LAG_SECONDS: Final = _cluster(
    "lag_seconds",
    "seconds",
    "Age of the oldest message that waits to be taken",
    combined=Combined.HIGHEST,
)
DRAIN_SECONDS: Final = _cluster(
    "drain_seconds",
    "seconds",
    "Forecast: how long until nothing waits; not there where that is never",
    combined=Combined.HIGHEST,
)
LOSS_SECONDS: Final = _cluster(
    "loss_seconds",
    "seconds",
    "Forecast: how long until a message is lost; not there where none will be",
    combined=Combined.LOWEST,
)
MISSING: Final = _cluster(
    "missing_messages",
    "messages",
    "Messages that the last entry of its ledger misses; not there where it misses none",
)
TOPIC_PUBLISHED: Final = Metric(
    name="angelia_topic_published_total",
    kind=MetricKind.COUNTER,
    unit="messages",
    help="Messages that were ever published to the topic, by whomever, and copies sent again",
    shown=ShownBy.CLUSTER,
    labels=_TOPIC,
)
WORKERS: Final = _other(
    "angelia_workers", "workers", "Workers that live", shown=ShownBy.CLUSTER, kind=MetricKind.GAUGE
)

# ---- processes ----------------------------------------------------------------------------------

PART_UP: Final = _other(
    "angelia_part_up",
    "boolean",
    "1 if the part (database, log) answered this process while the metrics were read",
    kind=MetricKind.GAUGE,
    labels=("part",),
)
WORKER_PARTITIONS: Final = _other(
    "angelia_worker_partitions",
    "partitions",
    "Partitions that this worker owns",
    shown=ShownBy.WORKER,
    kind=MetricKind.GAUGE,
)
WORKER_SUBSCRIPTIONS: Final = _other(
    "angelia_worker_subscriptions",
    "subscriptions",
    "Subscriptions that this worker delivers to",
    shown=ShownBy.WORKER,
    kind=MetricKind.GAUGE,
)
WORKER_CONNECTIONS: Final = _other(
    "angelia_worker_connections",
    "connections",
    "Connections to subscribers by state: idle, busy",
    shown=ShownBy.WORKER,
    kind=MetricKind.GAUGE,
    labels=("state",),
)
WORKER_WAITING: Final = _other(
    "angelia_worker_waiting_requests",
    "requests",
    "Requests that wait for a connection",
    shown=ShownBy.WORKER,
    kind=MetricKind.GAUGE,
)
LOG_APPENDED: Final = _other(
    "angelia_log_appended_records_total", "records", "Records that the log acknowledged"
)
LOG_FETCHED: Final = _other(
    "angelia_log_fetched_records_total", "records", "Records read from the log"
)
LOG_FETCHED_BYTES: Final = _other(
    "angelia_log_fetched_bytes_total", "bytes", "Bytes read from the log, decompressed"
)
LOG_FETCHES: Final = _other("angelia_log_fetches_total", "requests", "Reads of the log")
LOG_FOLLOWER_FETCHES: Final = _other(
    "angelia_log_follower_fetches_total",
    "requests",
    "Requests to replicas in this process's rack that are not the leader",
)
LOG_COMMITS: Final = _other("angelia_log_commits_total", "requests", "Commits of positions")
LOG_THROTTLED: Final = _other(
    "angelia_log_throttled_seconds_total",
    "seconds",
    "Time for which Kafka brokers wanted no requests, because a quota was used up",
)
TRACES_RECORDED: Final = _other(
    "angelia_trace_entries_recorded_total", "entries", "Trace entries that the log has"
)
TRACES_LOST: Final = _other(
    "angelia_trace_entries_lost_total", "entries", "Trace entries that found no room"
)
TRACES_NOT_STORED: Final = _other(
    "angelia_trace_entries_not_stored_total",
    "entries",
    "Trace entries that the recorder did not store, by cause: no-room (the disk budget), no-day "
    "(older than traces are kept), dropped (the log had them no longer; at most so many), "
    "unreadable",
    shown=ShownBy.WORKER,
    labels=("cause",),
)
TRACES_ROOM: Final = _other(
    "angelia_traces_room_used_ratio",
    "ratio",
    "Part of the disk budget that traces take, as a worker that looked last saw it",
    shown=ShownBy.WORKER,
    kind=MetricKind.GAUGE,
)
SPANS_EXPORTED: Final = _other(
    "angelia_otlp_spans_exported_total", "spans", "Spans that the OTLP endpoint took"
)
SPANS_LOST: Final = _other(
    "angelia_otlp_spans_lost_total", "spans", "Spans that found no room, or were refused"
)
LOOP_TASKS: Final = _other(
    "angelia_event_loop_tasks", "tasks", "Tasks of the event loop", kind=MetricKind.GAUGE
)
LOOP_LAG: Final = _other(
    "angelia_event_loop_lag_seconds",
    "seconds",
    "How long ready work waited for the event loop while the metrics were read",
    kind=MetricKind.GAUGE,
)
BUILD_INFO: Final = _other(
    "angelia_build_info", "constant", "1, by version", kind=MetricKind.GAUGE, labels=("version",)
)
PROCESS_CPU: Final = _other("process_cpu_seconds_total", "seconds", "CPU time, user and system")
PROCESS_OPEN_FILES: Final = _other(
    "process_open_fds", "descriptors", "Open file descriptors", kind=MetricKind.GAUGE
)
PROCESS_FILES_MAX: Final = _other(
    "process_max_fds", "descriptors", "File descriptors that may be open", kind=MetricKind.GAUGE
)
PROCESS_RESIDENT: Final = _other(
    "process_resident_memory_bytes", "bytes", "Memory in RAM", kind=MetricKind.GAUGE
)
PROCESS_VIRTUAL: Final = _other(
    "process_virtual_memory_bytes", "bytes", "Address space in use", kind=MetricKind.GAUGE
)
PROCESS_STARTED: Final = _other(
    "process_start_time_seconds", "seconds", "When it began, since the epoch", kind=MetricKind.GAUGE
)

ALL: Final = tuple(each for each in tuple(globals().values()) if isinstance(each, Metric))
BY_NAME: Final = {each.name: each for each in ALL}
