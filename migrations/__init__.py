"""Alembic's environment, and the migrations. A migration first adds; a later one removes."""
