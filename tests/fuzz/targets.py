"""Everything that is fuzzed, by name; each is imported when it is used."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from tests.fuzz.target import Target

# The module in this package, and the name in it: what is fuzzed is instrumented when it is
# imported, which takes its time.
TARGETS: Final[Mapping[str, tuple[str, str]]] = {
    "publications": ("publish_targets", "PUBLICATIONS"),
    "requests": ("http_targets", "REQUESTS"),
    "answers": ("http_targets", "ANSWERS"),
    "http2": ("http_targets", "HTTP2"),
    "kafka-answers": ("kafka_targets", "ANSWERS"),
    "kafka-batches": ("kafka_targets", "BATCHES"),
    "filters": ("document_targets", "FILTERS"),
    "paths": ("document_targets", "PATHS"),
    "templates": ("document_targets", "TEMPLATES"),
    "events": ("document_targets", "EVENTS"),
    "batches": ("document_targets", "BATCHES"),
    "json-schemas": ("document_targets", "JSON_SCHEMAS"),
    "avro": ("document_targets", "AVRO"),
}


def target_of(name: str) -> Target:
    """Import a target."""
    module, attribute = TARGETS[name]
    found: Target = getattr(import_module(f"tests.fuzz.{module}"), attribute)
    return found
