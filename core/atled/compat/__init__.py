"""Running programs written for other libraries. Importing this package alone changes nothing."""
