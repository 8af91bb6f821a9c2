"""The message log on Apache Kafka (3.7 or newer), over kafka-python.

Messages are sent and received on the event loop, over Angelia's own connections: `producer` sends
the contents of `append_queues` to each `broker`; `tail`, with a `session` at each broker, and
`reader` use `fetch_requests`. `protocol` encodes requests, responses and records.

Each connection begins with `credentials`: TLS, and `sasl`; if brokers refuse them, `probe` finds
the reason.

Everything else uses kafka-python, through `bridge` and `client`: `offsets_by_time`, `commits`,
`admin`, `ownership` with its `assignor`. `adapter` combines the parts. kafka-python's protocol
classes, connection manager and group coordinator are not its public API: its version is pinned, and
the contract tests check each of them with a real broker.
"""

from app.log.kafka.adapter import kafka_log
from app.log.kafka.protocol.compression import Compression

__all__ = ["Compression", "kafka_log"]
