"""Telemetry by OTLP: spans of messages that are sampled, and all metrics, to an endpoint."""
