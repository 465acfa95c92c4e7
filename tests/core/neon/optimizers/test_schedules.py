"""Schedules give the rates of their formulas."""

import pytest

from atled.neon.optimizers import ExpSchedule, PolySchedule, PowerSchedule, Schedule, ShiftSchedule, StepSchedule

ROWS = [
    (Schedule(), [1, 1, 1, 1, 1, 1]),
    (Schedule(2, 0.5), [1, 1, 0.5, 0.5, 0.25, 0.25]),
    (Schedule([1, 4], 0.5), [1, 0.5, 0.5, 0.5, 0.25, 0.25]),
    (Schedule([1, 4], [0.3, 0.2]), [1, 0.3, 0.3, 0.3, 0.2, 0.2]),
    (StepSchedule([1, 4], [0.3, 0.2]), [1, 0.3, 0.3, 0.3, 0.2, 0.2]),
    (PowerSchedule(3, 0.5), [1, 1, 1, 0.5, 0.5, 0.5]),
    (ExpSchedule(0.5), [1, 1 / 1.5, 1 / 2, 1 / 2.5, 1 / 3, 1 / 3.5]),
    (PolySchedule(4, 0.5), [1, 1, 1, 1, 0, 0]),
    (ShiftSchedule(2), [1, 1, 0.5, 0.5, 0.25, 0.25]),
    (ShiftSchedule(2, shift_size=2), [1, 1, 0.25, 0.25, 0.0625, 0.0625]),
]


@pytest.mark.parametrize("schedule, wanted", ROWS, ids=lambda each: type(each).__name__)
def test_rates_are_those_of_the_formula(schedule, wanted):
    found = [schedule.get_learning_rate(0.25, epoch) for epoch in range(6)]
    given = isinstance(schedule.__dict__.get("change"), list)
    assert found == pytest.approx([rate if given and rate != 1 else 0.25 * rate for rate in wanted])


@pytest.mark.parametrize(
    "make, error, match",
    [
        (lambda: Schedule(0, 0.5), ValueError, "step_config is 0"),
        (lambda: Schedule("2", 0.5), TypeError, "step_config is of type str"),
        (lambda: Schedule(2, [0.5]), TypeError, "step_config is of type int"),
        (lambda: Schedule([2, 1], 0.5), ValueError, "do not rise"),
        (lambda: StepSchedule([1, 2], [0.5]), ValueError, "2 epochs are not 1 rates"),
        (lambda: StepSchedule([1, 2], 0.5), TypeError, "change is of type float"),
        (lambda: PowerSchedule([1], 0.5), TypeError, "step_config is of type list"),
        (lambda: ExpSchedule(-1), ValueError, "decay is -1"),
        (lambda: PolySchedule(0, 1), ValueError, "total_epochs is 0"),
        (lambda: PolySchedule(4, 0), ValueError, "power is 0"),
        (lambda: PolySchedule(4, 0.5).get_learning_rate(1, 8), ValueError, "no real number"),
        (lambda: ShiftSchedule(0), ValueError, "interval is 0"),
    ],
)
def test_wrong_schedules_are_refused(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_descriptions_make_the_same_schedule_again():
    for schedule, _ in ROWS:
        described = schedule.get_description()
        assert type(schedule).gen_class(described["config"]).get_description() == described
