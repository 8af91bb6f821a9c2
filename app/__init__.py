"""Angelia: HTTP push delivery, from a message log to every subscriber."""

from app import native

# Install the compiled modules, if there are any, before any other module is imported.
native.install()
