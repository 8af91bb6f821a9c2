"""What a subscription sends next and when: new messages, retries, times to live."""
