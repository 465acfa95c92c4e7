"""What the lines of the processor's caches are like."""

LINE_BYTES = 64
