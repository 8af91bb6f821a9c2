"""What deliveries leave behind: undelivered messages and counts, written to PostgreSQL."""
