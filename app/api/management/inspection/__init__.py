"""Single messages: searched, previewed, traced; and pings."""
