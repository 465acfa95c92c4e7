"""From a function of the API to the call of an op."""
