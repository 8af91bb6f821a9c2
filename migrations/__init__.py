"""Alembic's environment, and the migrations.

A migration only adds to the schema. What is no longer used is removed in a later migration.
"""
