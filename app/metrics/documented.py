"""Prints the table of all metrics for docs/metrics.md: `python -m app.metrics.documented`."""

import sys
from collections.abc import Iterator

from app.metrics.catalogue import ALL, Metric, ShownBy

_TITLES = {
    ShownBy.API: "Publishing: each API process, since it began",
    ShownBy.CLUSTER: "Subscriptions and topics: each API process that manages, over all workers",
    ShownBy.WORKER: "Delivering: each worker, since it began",
    ShownBy.ALL: "Each API process and each worker",
}


def described() -> str:
    """Return a table for each process that shows metrics."""
    return "\n\n".join("\n".join(_table(shown)) for shown in _TITLES)


def _table(shown: ShownBy) -> Iterator[str]:
    yield f"### {_TITLES[shown]}\n"
    yield "| metric | kind | unit | labels | |"
    yield "|---|---|---|---|---|"
    yield from (_row(metric) for metric in ALL if metric.shown is shown)


def _row(metric: Metric) -> str:
    labels = ", ".join(metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.help} |"


if __name__ == "__main__":
    sys.stdout.write(described() + "\n")
