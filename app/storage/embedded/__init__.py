"""The embedded PostgreSQL of a home: installed, started, shared by its processes, and stopped."""
