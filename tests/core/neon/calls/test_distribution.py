"""Calls for several devices, on the one that there is."""


def test_one_device_has_all_data(be):
    x = be.array([[1.0, 2.0]])
    assert be.distribute_data(x, "Data") is None
    assert be.distribute_data(tensor=x, layer_parallelism="Model") is None
    assert be.revert_tensor(x) is None
    assert x.get().tolist() == [[1.0, 2.0]]
