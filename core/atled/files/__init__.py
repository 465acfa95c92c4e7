"""Files: parameters, solver states and networks, read and written in several formats."""
