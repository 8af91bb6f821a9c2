"""Access tokens for subscriptions with endpoints that require OAuth 2.0."""
