"""What NNabla keeps beside its core: data, profiling, saved networks. Each module is imported by its own name."""
