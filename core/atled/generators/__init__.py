"""What `make generated` writes: stubs, manifests, the support matrix, pages of functions."""
