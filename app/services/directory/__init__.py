"""The directory: topics and their subscriptions in memory, so that publishing needs no database."""
