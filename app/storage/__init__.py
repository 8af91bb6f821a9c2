"""All SQL of the database: engine, tables, repositories.

Callers outside of this package get domain values, and never rows.
"""
