"""One drain of a log in Kafka in a process of its own: `tests.benchmarks.bench_native` starts it.

python -m tests.benchmarks.drain_process BOOTSTRAP NAMESPACE URL MESSAGES SUBSCRIPTIONS TRACKING
"""

import json
import sys

from app import native
from app.domain.trace import TrackingMode
from app.log.kafka import kafka_log
from tests.benchmarks.drains import Drain, drained


def main() -> None:
    """Print the figures, and whether the hot path is compiled here."""
    bootstrap, namespace, url, messages, subscriptions, tracking = sys.argv[1:]
    drain = Drain(
        url=url,
        messages=int(messages),
        subscriptions=int(subscriptions),
        tracking=TrackingMode(tracking),
    )
    figures = drained(lambda: kafka_log(bootstrap, namespace=namespace), drain)
    print(json.dumps(figures | {"compiled": native.is_compiled()}))


if __name__ == "__main__":
    main()
