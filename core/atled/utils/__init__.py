"""NNabla's utilities: data sets, images, downloads, profiling, saved networks. Import each module by its own name."""
