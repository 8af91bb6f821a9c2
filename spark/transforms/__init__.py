"""What jobs compute: from DataFrame to DataFrame."""
