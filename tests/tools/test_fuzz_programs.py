"""Random programs: a seeded round of them, and that what is wrong is found, told apart and made small."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

pytest.importorskip("atled_cpu_numba", reason="programs run on backend cpu")
if not sys.platform.startswith("linux"):
    pytest.skip("children are watched by /proc", allow_module_level=True)

from atled.arrays.cell import ArrayCell  # noqa: E402  # after the path is set
from atled.graph.compile import lowering  # noqa: E402  # likewise
from atled.graph.nodes import gradient  # noqa: E402  # likewise
from atled.graph.run import binding  # noqa: E402  # likewise
from atled.graph.run.words import Table  # noqa: E402  # likewise
from fuzzing_programs import drawing  # noqa: E402  # likewise
from fuzzing_programs.comparing import check  # noqa: E402  # likewise
from fuzzing_programs.drawing import Drawer  # noqa: E402  # likewise
from fuzzing_programs.running import UncleanError, run_plainly  # noqa: E402  # likewise
from fuzzing_programs.sampled import sampled_op  # noqa: E402  # likewise
from fuzzing_programs.setting import Setting  # noqa: E402  # likewise
from fuzzing_programs.shrinking import Checker, shrunk  # noqa: E402  # likewise

pytestmark = pytest.mark.usefixtures("no_parameters")

X = "x1 = nn.Variable.from_numpy_array(draw(1, (3, 4)), need_grad=True)"
TWICE = [X, "v1 = F.tanh(x1) * F.sin(x1)", "v1.forward()", "attempt(lambda: v1.backward())", "look(lambda: x1.g)"]
LATE = [
    X.replace("True", "False"),
    "v1 = F.sum(F.tanh(F.sin(x1)))",
    "v1.forward()",
    "v2 = v1.parent.inputs[0]",
    "look(lambda: v2.d)",
]
WRITTEN = [*LATE[:3], "x1.d = 0.5", *LATE[3:]]


def kind_of(statements, counts=(1,)):
    with pytest.raises(UncleanError) as caught:
        check(statements, Setting("cpu:float"), counts)
    return caught.value.kind


def test_equal_seeds_draw_equal_programs():
    one = [drawing.draw(7, number) for number in range(10)]
    assert one == [drawing.draw(7, number) for number in range(10)]
    assert one != [drawing.draw(8, number) for number in range(10)]


def test_programs_are_valid_and_contain_everything():
    features = set()
    for number in range(40):
        program = drawing.draw(3, number)
        features.update(program.features)
        run_plainly(program.statements)
    assert len(features) > 70
    assert {"op of a sample", "leaf of float64"} <= features


def test_a_program_may_call_most_ops_as_in_their_samples():
    drawer = Drawer("sampled ops")
    x = drawer.leaf((3, 4))
    names = set()
    for _ in range(300):
        made = sampled_op(drawer, x, (3, 4))
        left = [drawer.fresh("v") for _ in range(made.outputs)]
        drawer.do(f"{', '.join(left)} = {made.text}", made.feature)
        names.add(made.text.partition("(")[0])
    assert len(names) > 80
    assert any(x in statement for statement in drawer.statements[1:])


@pytest.mark.slow
def test_a_round_of_programs_is_clean():
    drawn = (drawing.draw(20261122, number) for number in range(60))
    programs = [program for program in drawn if len(program.statements) < 40][:16]  # the short ones: each takes less
    for number, program in enumerate(programs):
        try:
            check(program.statements, program.setting, (1, 3))
        except UncleanError as error:
            error.add_note(f"seed 20261122, program {number}")
            raise


@pytest.mark.slow
def test_a_round_of_programs_on_a_simulated_device_is_clean():
    drawn = [drawing.draw(20261122, number, "sim") for number in range(40)]
    assert {mode.partition("(")[0] for program in drawn for mode in program.setting.modes} == {
        "atled_sim.compile_formulas",
        "atled_sim.defer_checks",
        "atled_sim.omit",
        "atled_sim.prefer_layout",
        "atled_sim.refuse",
    }
    for number, program in enumerate(drawn):
        if len(program.statements) > 40:
            continue
        try:
            check(program.statements, program.setting)
        except UncleanError as error:
            error.add_note(f"seed 20261122, program {number} on sim")
            raise


def test_words_that_a_device_program_does_not_get_are_found(monkeypatch):
    step = "for number in range(6):\n    solver1.set_learning_rate(0.1 * number + 0.1)\n    step1()"
    made = ["v1 = F.mean(x1 * x1)", "solver1 = S.Sgd(0.1)", "solver1.set_parameters({'x1': x1})"]
    program = [X, *made, "step1 = nn.compile_step(v1, solver1, [])", step, "look(lambda: x1.d)"]
    check(program, Setting("sim:float", modes=("atled_sim.compile_formulas()",)))
    put = Table.put

    def put_once(table):
        if not table._sent:
            put(table)

    monkeypatch.setattr(Table, "put", put_once)
    with pytest.raises(UncleanError, match="device programs and step by step") as caught:
        check(program, Setting("sim:float"))
    assert caught.value.kind == "bits"


def test_a_failed_run_that_leaves_something_behind_is_found(monkeypatch):
    made = ["v1 = F.mean(x1 * F.dropout(x1, seed=1))", "solver1 = S.Sgd(0.1)", "solver1.set_parameters({'x1': x1})"]
    steps = ["step1()"] * 12
    program = [X, *made, "step1 = nn.compile_step(v1, solver1, [])", *steps, "look(lambda: x1.d)"]
    check(program, Setting("sim:float"))
    monkeypatch.setattr(binding, "go_back", lambda random_states, times: None)
    with pytest.raises(UncleanError, match="device programs and faults") as caught:
        check(program, Setting("sim:float"))
    assert caught.value.kind == "bits"


def test_what_is_right_is_clean():
    for statements in (TWICE, LATE, WRITTEN):
        check(statements, Setting("cpu:float"), (1, 3))


def test_gradients_that_are_not_added_are_found(monkeypatch):
    monkeypatch.setattr(gradient, "_add", lambda graph, cotangents, value, new: cotangents.__setitem__(value, new))
    assert kind_of(TWICE) == "wrong"


def test_memory_that_two_values_share_too_long_is_found(monkeypatch):
    def reuse_all(slots, steps):
        inner = [slot for slot in slots if slot.source[0] == "internal"]
        for slot in inner:
            slot.memory = next(other.memory for other in inner if other.nbytes == slot.nbytes)

    monkeypatch.setattr(lowering, "reuse_memory", reuse_all)
    layers = [f"v{n + 1} = F.softmax(F.transpose(v{n}, axes=(1, 0)), axis=0) + v{n}" for n in (1, 2)]
    start = ["v1 = nn.Variable.from_numpy_array(draw(1, (4, 4)))"]
    both = [*start, *layers, "del v2", "v3.forward()", "look(lambda: v3.d)"]
    assert kind_of(both) == "wrong"


def test_a_refusal_without_a_reason_is_found(monkeypatch):
    monkeypatch.setattr(ArrayCell, "may_differ_since", lambda cell, number: True)
    assert kind_of(LATE) == "refused"


def test_a_write_that_goes_unnoticed_is_found(monkeypatch):
    monkeypatch.setattr(ArrayCell, "may_differ_since", lambda cell, number: False)
    assert kind_of(WRITTEN) == "wrong"


def test_a_result_that_depends_on_the_threads_is_found():
    threads = "from atled_cpu_numba.pool import thread_count"
    assert kind_of([threads, "look(lambda: thread_count())"], (1, 3)) == "bits"


def test_another_exception_is_found():
    assert kind_of([X, "look(lambda: 1 // 0)"]) == "foreign"


def test_shrinking_leaves_what_is_needed():
    statements = ["a = 1", "b = 2", "for n in range(3):\n    b += 1\n    a += 2", "c = 3", "d = a"]
    small = shrunk(statements, lambda left: "a += 2" in "\n".join(left) and "a = 1" in left)
    assert small == ["a = 1", "for n in range(3):\n    a += 2"]


@pytest.mark.slow
def test_a_process_says_what_comes_of_programs_and_is_replaced_when_it_dies():
    checker = Checker(Setting("cpu:float"), "1")
    try:
        ours = "nn.Variable.__module__ == 'atled.variable' and"  # not the interpreter's
        crash = ["import os", f"{ours} os.kill(os.getpid(), 11)"]
        given = [TWICE, ["look(lambda: undefined)"], [f"{ours} 1 // 0"], crash, TWICE]
        found = [checker.outcome(statements) for statements in given]
        assert found == [
            "right",
            "invalid",
            "foreign ZeroDivisionError integer division or modulo by zero",
            "crashing",
            "right",
        ]
    finally:
        checker.close()


@pytest.mark.slow
def test_the_command_reports_counts_and_what_programs_contain():
    command = [sys.executable, ROOT / "tools" / "fuzz_programs.py", "--programs", "2", "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert sum(report["counts"].values()) == 2
    assert done.returncode == bool(report["unclean"])
    assert report["features"]["leaf"][1] == 2
