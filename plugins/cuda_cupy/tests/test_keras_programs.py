"""Programs for a Keras-style backend run through the drop-in on the device, with what falls back counted."""

import pytest
from tests.compat.keras_running import PROGRAMS, check_printed, printed_by

import atled as nn

ON_THE_HOST = {
    "minibatches": set(),
    "dbm_mean_field": set(),
    "recurrences": {"Slice"},  # of whole numbers
    "gibbs_chains": set(),
    "state": set(),
    "whitening": {"SVD", "Solve"},
    "units": set(),
}
"""By program, of those with few steps, the ops that the device leaves to the host."""


@pytest.mark.filterwarnings("ignore::atled_contexts.errors.FallbackWarning")
@pytest.mark.parametrize("name", ON_THE_HOST)
def test_a_program_prints_what_numpy_computes(name):
    program = PROGRAMS[0].with_name(f"{name}.py")
    check_printed(printed_by(program, "cuda"), program)
    assert {op for op, _ in nn.fallback_counts()} == ON_THE_HOST[name]
