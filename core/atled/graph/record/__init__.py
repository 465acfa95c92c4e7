"""The user's graph: values, recorded calls, its structure and key."""
