"""Earlier homes of parts of the NNabla API."""
