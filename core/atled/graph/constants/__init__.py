"""What plans compute of arrays that nobody writes from run to run: computed once, and read as outside arrays."""
