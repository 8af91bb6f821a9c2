"""The message log: its interface, and its adapters for Kafka and PostgreSQL."""
