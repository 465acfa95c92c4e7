"""Values that are not stored: which are computed again, and how."""
