"""Running programs written for other libraries. Nothing here changes anything before it is asked for."""
