"""Running: plans bound to storages, and single calls."""
