"""The message log on Apache Kafka (3.0 or newer), with parts of kafka-python.

Messages are sent and received on the event loop, over Angelia's own connections. `producer` sends
the records in `append_queues` to each `broker`, with numbers from `sequences` and `producer_ids`.
`tail` (with a `session` at each broker) and `reader` read through `fetch_requests`, from the
replicas in `partition_leaders`. `protocol` encodes requests, responses and records.

Each connection logs in with `credentials` (TLS, SASL) through `sasl`. If brokers refuse the
credentials, `probe` finds the reason.

The other modules use kafka-python, through `bridge` and `client`: `offsets_by_time`, `commits`,
`admin`, `ownership` with its `assignor`. `adapter` combines all modules. kafka-python's protocol
classes, connection manager and group coordinator are not its public API. So only one version of
kafka-python is allowed, and the contract tests use these classes with a real broker.
"""

from app.log.kafka.adapter import kafka_log
from app.log.kafka.protocol.compression import Compression
from app.log.kafka.protocol.fetches import ReadOptions

__all__ = ["Compression", "ReadOptions", "kafka_log"]
