"""The embedded PostgreSQL of an installation: installed, started, shared by processes, stopped."""
