"""Single messages: search, previews and traces; and pings."""
