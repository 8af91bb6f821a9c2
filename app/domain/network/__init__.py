"""Where requests may go to and come from."""
