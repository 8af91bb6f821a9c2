"""The message log on Apache Kafka (3.7 or newer), over kafka-python.

`bridge` and `client` reach the brokers, `encoding` and `decoding` know the bytes, and on them stand
the parts of the seam: `producer`, `reader` and `tail`, `commits`, `admin`, `ownership` with its
`assignor`. `adapter` puts them together. Appends have connections of their own: `producer` puts
what waits in `lines` into requests (`produce_wire`) to each `broker`.

kafka-python's protocol classes, connection manager and group coordinator are not its public API:
its version is pinned, and the contract tests hold each of them to a real broker.
"""

from app.log.kafka.adapter import kafka_log
from app.log.kafka.compression import Compression

__all__ = ["Compression", "kafka_log"]
