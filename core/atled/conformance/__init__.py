"""The conformance kit: checks that hold for every op on every backend, made from the samples of the op specs.

    pytest --pyargs atled.conformance --atled-plugin NAME

runs all of them on one plugin; its modules `test_*.py` hold them. See docs/conformance.md.
"""
