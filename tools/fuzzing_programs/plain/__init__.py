"""The API of the library once more, computed call by call in float64 by the references of the ops: slow, believed."""
