"""Routes that exist only for Hermes' console and tools."""
