"""Data that running processes exchange through the database."""
