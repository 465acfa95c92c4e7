"""What bounds the library: sizes of arrays, memory of the machine, caches, whole numbers."""
