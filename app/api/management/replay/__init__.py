"""Routes that send messages again."""
