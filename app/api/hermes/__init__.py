"""What Hermes' console and tools ask, and Angelia answers for them alone."""
