"""Gives a user of Kafka only the rights that docs/kafka.md names."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)

from tests.servers.kafka_listeners import LIMITED_USER

Right = tuple[ResourceType, ACLOperation]

# The rights that docs/kafka.md says Angelia needs.
RIGHTS: Final[tuple[Right, ...]] = (
    *(
        (ResourceType.TOPIC, getattr(ACLOperation, name))
        for name in ("CREATE", "DELETE", "ALTER", "ALTER_CONFIGS", "DESCRIBE_CONFIGS")
    ),
    (ResourceType.TOPIC, ACLOperation.READ),
    (ResourceType.TOPIC, ACLOperation.WRITE),
    (ResourceType.GROUP, ACLOperation.READ),
    (ResourceType.GROUP, ACLOperation.DELETE),
)


@contextmanager
def admin_of(bootstrap: str) -> Iterator[KafkaAdminClient]:
    """Yield an admin client of Kafka, which may give rights."""
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield client
    finally:
        client.close()


def give(admin: KafkaAdminClient, namespace: str, rights: Iterable[Right] = RIGHTS) -> None:
    """Give LIMITED_USER these rights for all topics and groups in the namespace."""
    admin.create_acls([_acl(namespace, *each) for each in rights])


def _acl(namespace: str, kind: ResourceType, operation: ACLOperation) -> ACL:
    pattern = ResourcePattern(kind, namespace, ACLResourcePatternType.PREFIXED)
    return ACL(f"User:{LIMITED_USER}", "*", operation, ACLPermissionType.ALLOW, pattern)
