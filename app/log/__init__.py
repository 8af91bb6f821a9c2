"""The message log: the seam (`interface`) and its adapters for Kafka and PostgreSQL."""
