"""Where values live: arrays, their storage in host and device memory, and what watches them."""
