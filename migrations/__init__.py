"""Alembic's environment and the migrations, which expand before they contract."""
