"""The simulated device by itself: opaque arrays, memory, counts, faults."""

import gc
import threading

import numpy as np
import pytest

import atled_sim
from atled.array_desc import ArrayDesc
from atled.call import Call
from atled.ops.spec import SPECS
from atled_sim import faults, kernels
from atled_sim.device import Counts, device
from atled_sim.memory import Memory
from atled_sim.plugin import ARRAY_CLASS


def upload(values, device_id="0"):
    values = np.ascontiguousarray(values)
    array = ARRAY_CLASS.allocate(ArrayDesc(values.shape, values.dtype), device_id)
    ARRAY_CLASS.upload(values, array)
    return array


def download(array):
    values = np.empty(array.shape, array.dtype)
    ARRAY_CLASS.download(array, values)
    return values


def prepared(op, *shapes, device_id="0", **attributes):
    spec = SPECS[op]
    inputs = tuple(ArrayDesc(shape) for shape in shapes)
    checked = spec.check_attributes(attributes, inputs)
    outputs = spec.infer_outputs(inputs, checked)
    kept = {name: value for name, value in checked.items() if name not in spec.float_names}
    return kernels.prepare(Call(spec, inputs, outputs, kept, device_id=device_id))


def test_what_goes_up_comes_down():
    values = np.arange(6, dtype=np.int64).reshape(2, 3)
    np.testing.assert_array_equal(download(upload(values)), values)


def test_an_array_shows_its_values_to_nobody():
    array = upload(np.ones(3, np.float32))
    assert np.asarray(array).dtype == object
    with pytest.raises(TypeError):
        memoryview(array)
    with pytest.raises(TypeError):
        np.ones(3) + array
    with pytest.raises(TypeError):
        iter(array)
    assert not hasattr(array, "__array_interface__")
    assert not hasattr(array, "__dict__")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_new_memory_holds_nan(dtype):
    assert np.isnan(download(ARRAY_CLASS.allocate(ArrayDesc((4,), dtype), "0"))).all()


def test_new_whole_numbers_are_minus_one():
    assert (download(ARRAY_CLASS.allocate(ArrayDesc((4,), np.int64), "0")) == -1).all()


def test_a_view_is_the_same_memory():
    array = upload(np.zeros(6, np.float32))
    ARRAY_CLASS.fill(ARRAY_CLASS.view(array, (2, 3)), 5.0)
    assert (download(array) == 5).all()


def test_a_copy_stays_on_the_device(device):
    source, target = upload(np.arange(3.0)), upload(np.zeros(3))
    device.reset_counts()
    ARRAY_CLASS.copy(source, target)
    assert (device.counts.copies, device.counts.copied_bytes, device.counts.downloads) == (1, 24, 0)
    assert download(target).tolist() == [0, 1, 2]


def test_everything_is_counted(device):
    array = upload(np.zeros(6, np.float32))
    download(array)
    prepared("ReLU", (6,)).run(array, upload(np.zeros(6, np.float32)))
    ARRAY_CLASS.synchronize("0")
    assert vars(device.counts) == {
        "allocations": 2,
        "fills": 0,
        "launches": 1,
        "synchronizations": 1,
        "uploads": 2,
        "downloads": 1,
        "copies": 0,
        "uploaded_bytes": 48,
        "downloaded_bytes": 24,
        "copied_bytes": 0,
        "table_copies": 0,
        "programs": 0,
        "replays": 0,
    }
    assert "uploads=2" in repr(device.counts)
    assert "fills" not in repr(device.counts)


def test_a_bound_launch_reads_its_floats_when_it_runs(device):
    x, y, table = upload(np.ones(3, np.float32)), upload(np.zeros(3, np.float32)), upload(np.zeros(4, np.int64))
    launch = prepared("MulScalar", (3,)).bind([x, y], table, 2)
    program = ARRAY_CLASS.program([launch], "0")
    for value in (2.0, 5.0):
        words = np.zeros(4, np.int64)
        words[2:3].view(np.float64)[0] = value
        ARRAY_CLASS.put_words(words, table)
        program()
        assert download(y).tolist() == [value] * 3
    counts = device.counts
    assert (counts.table_copies, counts.programs, counts.replays, counts.launches) == (2, 1, 2, 2)


def test_an_empty_device_counts_and_computes_nothing(device):
    x, y = upload(np.ones(3, np.float32)), upload(np.zeros(3, np.float32))
    with atled_sim.empty():
        step = prepared("ReLU", (3,))
        step.run(x, y)
        step.bind([x, y], None, 0)()
    assert download(y).tolist() == [0, 0, 0]
    prepared("ReLU", (3,)).run(x, y)
    assert download(y).tolist() == [1, 1, 1]
    assert device.counts.launches == 3


def test_memory_is_given_back_with_the_last_array(device):
    before = device.memory.bytes_in_use
    array = upload(np.zeros(100, np.float32))
    view = ARRAY_CLASS.view(array, (10, 10))
    assert device.memory.bytes_in_use == before + 400
    assert ARRAY_CLASS.statistics("0")["bytes_in_use"] == before + 400
    del array
    gc.collect()
    assert device.memory.bytes_in_use == before + 400
    del view
    gc.collect()
    assert device.memory.bytes_in_use == before
    assert device.memory.peak_bytes == before + 400


def test_a_kernel_refuses_arrays_of_another_device():
    x, y = upload(np.zeros(3, np.float32), "1"), upload(np.zeros(3, np.float32), "0")
    with pytest.raises(ValueError, match=r"on device '1'.*device '0' of plugin sim cannot reach it"):
        prepared("ReLU", (3,)).run(x, y)


def test_a_kernel_refuses_host_memory():
    y = upload(np.zeros(3, np.float32))
    with pytest.raises(TypeError, match=r"ReLU\(float32\[3\].*an argument is a ndarray"):
        prepared("ReLU", (3,)).run(np.zeros(3, np.float32), y)


def test_the_nth_operation_of_a_kind_fails_and_only_that():
    array = upload(np.zeros(3))
    with faults.fail("upload", nth=2) as fault:
        ARRAY_CLASS.upload(np.ones(3), array)
        assert not fault.happened
        with pytest.raises(atled_sim.SimFault, match=r"upload of float64\[3\] to device '0' of plugin sim: it failed"):
            ARRAY_CLASS.upload(np.full(3, 2.0), array)
        assert fault.happened
        ARRAY_CLASS.fill(array, 3.0)
        ARRAY_CLASS.upload(np.full(3, 4.0), array)
    ARRAY_CLASS.upload(np.full(3, 5.0), array)
    assert (download(array) == 5).all()


def test_a_failed_upload_changes_nothing(device):
    array = upload(np.ones(3))
    device.reset_counts()
    with faults.fail("upload"), pytest.raises(atled_sim.SimFault):
        ARRAY_CLASS.upload(np.zeros(3), array)
    assert device.counts.uploads == 0
    assert (download(array) == 1).all()


def test_a_failed_allocation_takes_no_memory(device):
    before = device.memory.block_count
    with faults.fail("allocation"), pytest.raises(atled_sim.SimFault, match=r"allocation of float32\[7\]"):
        ARRAY_CLASS.allocate(ArrayDesc((7,)), "0")
    assert device.memory.block_count == before


def test_faults_can_be_limited_to_a_device():
    with faults.fail("allocation", device_id="1"):
        upload(np.zeros(1), "0")
        with pytest.raises(atled_sim.SimFault, match="device '1'"):
            upload(np.zeros(1), "1")


def test_a_fault_names_the_call():
    x = upload(np.zeros(3, np.float32))
    expected = r"launch of ReLU\(float32\[3\].* on device '0'"
    with faults.fail("launch"), pytest.raises(atled_sim.SimFault, match=expected):
        prepared("ReLU", (3,)).run(x, x)


@pytest.mark.parametrize(("operation", "nth", "words"), [("uplaod", 1, "upload"), ("upload", 0, "nth=1")])
def test_wrong_faults_are_refused(operation, nth, words):
    with pytest.raises(ValueError, match=words), faults.fail(operation, nth=nth):
        pass


def test_refusing_an_unknown_op_is_refused():
    with pytest.raises(LookupError, match="Tahn"), atled_sim.refuse({"Tahn"}):
        pass


def test_what_a_finalizer_has_the_device_do_while_it_counts_is_counted_too(monkeypatch):
    class Counting(Counts):
        """Where downloads are counted, more is downloaded: as by a finalizer, or a handler of a signal."""

        def __getattribute__(self, name):
            if name == "downloads" and waiting:
                waiting.pop()
                download(array)
            return super().__getattribute__(name)

    def work():
        download(array)
        done.set()

    array, waiting, done = upload(np.ones(3)), [True], threading.Event()
    monkeypatch.setattr(device("0"), "counts", Counting())
    threading.Thread(target=work, daemon=True).start()
    assert done.wait(timeout=60)
    assert device("0").counts.downloads == 2


def test_what_is_allocated_amid_an_allocation_is_another_block():
    class Peaked(Memory):
        """Where the peak is looked at, more is allocated: as by a handler of a signal."""

        @property
        def peak_bytes(self):
            if waiting:
                waiting.pop()
                numbers.append(self.allocate(8))
            return 0

        @peak_bytes.setter
        def peak_bytes(self, _):
            """It stays 0."""

    waiting, numbers = [], []
    memory = Peaked("0")
    waiting.append(True)
    numbers.append(memory.allocate(16))
    assert len(set(numbers)) == memory.block_count == 2
    for number in numbers:
        memory.free(number)
    assert memory.bytes_in_use == memory.block_count == 0
