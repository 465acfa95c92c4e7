"""Time and histograms."""

from types import SimpleNamespace

import numpy as np
import pytest

from atled.neon.callbacks import Callbacks


def test_time_goes_on(fitted):
    times = fitted().callback_data["time/train"]
    assert 0 < times["start_time"][0] <= times["end_time"][0]


@pytest.mark.parametrize(("per_mini", "times"), [(False, 3), (True, 6)])
def test_histograms_count_all_elements(cpu, model, per_mini, times):
    model.layers_to_optimize = [SimpleNamespace(name="a", W=cpu.array(np.full((2, 3), 4.0)), dW=None)]
    callbacks = Callbacks(model, progress_bar=False)
    callbacks.add_hist_callback(per_mini, ["W", "dW"])
    model.fit(callbacks)
    counts = callbacks.callback_data["hist/a_W"][:]
    expected = np.zeros((cpu.hist_bins, times))
    expected[2 - cpu.hist_offset] = 6
    np.testing.assert_array_equal(counts, expected)
