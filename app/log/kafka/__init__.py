"""The message log on Apache Kafka (3.7 or newer), over kafka-python.

Messages go in and out on the event loop, by connections of our own: `producer` puts what waits in
`append_queues` into requests to each `broker`; `tail`, with a `session` at each broker, and
`reader` have theirs from `fetch_requests`. `protocol` has the bytes of requests, answers and
records.

Each connection begins with `credentials`: TLS, and `sasl`; where brokers refuse them, `probe` asks
why.

All else is kafka-python's, which `bridge` and `client` reach: `offsets_by_time`, `commits`,
`admin`, `ownership` with its `assignor`. `adapter` puts the parts together. kafka-python's protocol
classes, connection manager and group coordinator are not its public API: its version is pinned, and
the contract tests hold each of them to a real broker.
"""

from app.log.kafka.adapter import kafka_log
from app.log.kafka.protocol.compression import Compression

__all__ = ["Compression", "kafka_log"]
