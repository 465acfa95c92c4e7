"""States of solvers: what is kept for each parameter, in memory and in files, those of NNabla 1.39 included."""

from pathlib import Path

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from all_solvers import SOLVERS
from atled.files.solver_states import SolverState

FILES = Path(__file__).parent / "files"

# As NNabla 1.39 names them.
NAMES = {
    "Sgd": [],
    "Momentum": ["m"],
    "Nesterov": ["m"],
    "Adadelta": ["e_sqr_delta", "e_sqr_grad"],
    "Adagrad": ["v"],
    "RMSprop": ["v"],
    "Adam": ["mean", "var"],
    "Adamax": ["m", "u"],
    "AMSGRAD": ["m", "v", "v_hat"],
}


def start(kind="Adam", shapes=((2, 3), (4,))):
    rng = np.random.RandomState(0)
    parameters = {
        f"layer/{i}": nn.Variable.from_numpy_array(rng.randn(*s).astype("f4"), need_grad=True)
        for i, s in enumerate(shapes)
    }
    solver = getattr(S, kind)()
    solver.set_parameters(parameters)
    return solver, parameters


def steps(solver, parameters, count, seed=1):
    rng = np.random.RandomState(seed)
    for _ in range(count):
        for parameter in parameters.values():
            parameter.g = rng.randn(*parameter.shape)
        solver.update()


@pytest.mark.parametrize("suffix", [".h5", ".protobuf"])
@pytest.mark.parametrize("kind", [kind.__name__ for kind in SOLVERS])
def test_training_goes_on_from_saved_states_as_if_it_had_not_been_interrupted(kind, suffix, tmp_path):
    pytest.importorskip("h5py" if suffix == ".h5" else "google.protobuf")
    solver, parameters = start(kind)
    steps(solver, parameters, 3)
    solver.save_states(tmp_path / f"states{suffix}")
    values = {key: parameter.d.copy() for key, parameter in parameters.items()}
    steps(solver, parameters, 2, seed=2)

    other, resumed = start(kind)
    for key, parameter in resumed.items():
        parameter.d = values[key]
    other.load_states(tmp_path / f"states{suffix}")
    steps(other, resumed, 2, seed=2)
    for key in parameters:
        np.testing.assert_array_equal(resumed[key].d, parameters[key].d)
    assert {key: state.t for key, state in other.get_states().items()} == {"layer/0": 5, "layer/1": 5}


@pytest.mark.parametrize("kind", NAMES)
def test_states_have_nnablas_names_and_start_at_zero(kind):
    solver, parameters = start(kind)
    for key, state in solver.get_states().items():
        assert isinstance(state, S.SolverState) and state.t == 0
        assert sorted(state.pstate) == NAMES[kind]
        for variable in state.pstate.values():
            assert variable.shape == parameters[key].shape and not variable.d.any()


def test_the_arrays_of_a_state_are_those_of_the_solver_and_t_is_not():
    solver, parameters = start("Momentum")
    states = solver.get_states()
    steps(solver, parameters, 1)
    held = states["layer/0"]
    assert held.t == 0 and held.pstate["m"].d.any()
    held.pstate["m"].d[...] = 0
    assert not solver.get_states()["layer/0"].pstate["m"].d.any()


def test_set_states_copies_values_and_leaves_parameters_that_are_not_named():
    solver, parameters = start("Adam")
    other, _ = start("Adam")
    steps(solver, parameters, 2)
    wanted = solver.get_states()
    other.set_states({"layer/1": wanted["layer/1"]})
    found = other.get_states()
    assert (found["layer/0"].t, found["layer/1"].t) == (0, 2)
    expected = wanted["layer/1"].pstate["mean"].d.copy()
    steps(solver, parameters, 1)
    np.testing.assert_array_equal(found["layer/1"].pstate["mean"].d, expected)


@pytest.mark.parametrize(
    "states, words",
    [
        (lambda: {"other": SolverState()}, "call set_parameters before"),
        (lambda: {"layer/0": SolverState({"m": nn.Variable((2, 3))})}, "a solver of this class"),
        (
            lambda: {"layer/0": SolverState({"mean": nn.Variable((3, 2)), "var": nn.Variable((2, 3))})},
            r"mean has shape \(3, 2\)",
        ),
    ],
)
def test_states_that_do_not_fit_are_refused_before_anything_is_changed(states, words):
    solver, parameters = start("Adam")
    steps(solver, parameters, 1)
    before = solver.get_states()["layer/1"].pstate["mean"].d.copy()
    for error in (ValueError, RuntimeError):  # NNabla's is the latter
        with pytest.raises(error, match=words):
            solver.set_states({"layer/1": solver.get_states()["layer/1"], **states()})
    np.testing.assert_array_equal(solver.get_states()["layer/1"].pstate["mean"].d, before)


@pytest.mark.parametrize("suffix", [".h5", ".protobuf"])
def test_a_file_of_nnabla_is_read(suffix):
    pytest.importorskip("h5py" if suffix == ".h5" else "google.protobuf")
    solver = S.Adam(0.1)
    solver.set_parameters({"net/w": nn.Variable((3,), need_grad=True), "b": nn.Variable((), need_grad=True)})
    solver.load_states(FILES / f"states_nnabla_1_39{suffix}")
    states = solver.get_states()
    assert {key: state.t for key, state in states.items()} == {"net/w": 2, "b": 2}
    np.testing.assert_allclose(states["net/w"].pstate["mean"].d, [0.29, 0.58, 0.87], rtol=1e-5)
    np.testing.assert_allclose(states["net/w"].pstate["var"].d, [0.004999, 0.019996, 0.044991], rtol=1e-4)


@pytest.mark.parametrize("suffix", [".h5", ".protobuf"])
def test_damaged_files_and_other_suffixes_are_refused(suffix, tmp_path):
    pytest.importorskip("h5py" if suffix == ".h5" else "google.protobuf")
    solver, _ = start("Adam")
    solver.save_states(tmp_path / f"a{suffix}")
    image = (tmp_path / f"a{suffix}").read_bytes()
    for count in (0, 5, len(image) // 2):
        (tmp_path / f"b{suffix}").write_bytes(image[:count])
        with pytest.raises(ValueError, match="What to do"):
            solver.load_states(tmp_path / f"b{suffix}")
    with pytest.raises(OSError, match="none"):
        solver.load_states(tmp_path / f"none{suffix}")
    for call in (solver.save_states, solver.load_states):
        with pytest.raises(ValueError, match=r"known: \.h5, \.protobuf"):
            call(tmp_path / "a.npz")


def test_a_compiled_step_goes_on_from_states_that_were_set():
    solver, parameters = start("Momentum", shapes=((2, 3),))
    (w,) = parameters.values()
    loss = F.sum(w * w)
    step = nn.compile_step(loss, solver)
    step()
    state = solver.get_states()["layer/0"]
    velocity = np.full((2, 3), 3.0)
    solver.set_states({"layer/0": SolverState({"m": nn.Variable.from_numpy_array(velocity)}, state.t)})
    before = w.d.copy()
    step()
    lr, momentum = solver.info["lr"], solver.info["momentum"]
    np.testing.assert_allclose(w.d, before - (momentum * velocity + lr * 2 * before), rtol=1e-5)


@pytest.mark.parametrize("states", [3, ["m"], {"layer/0": 3}], ids=["number", "list", "no state"])
def test_what_are_no_states_is_refused_with_where_to_get_them(states):
    solver, _ = start()
    with pytest.raises(TypeError, match=r"Adam.set_states\(\w+\): not a mapping.*\n.*pass what get_states\(\) gave"):
        solver.set_states(states)
