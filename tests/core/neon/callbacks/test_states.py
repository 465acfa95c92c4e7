"""Saved models and the end of a training."""

import pytest

from atled.neon.callbacks import Callbacks, SerializeModelCallback


def test_model_is_saved_every_second_epoch(fitted, model, tmp_path):
    fitted(epochs=5, save_path=tmp_path / "new" / "m.h5", serialize=2)
    assert (tmp_path / "new" / "m.h5").read_text("utf-8") == "3"
    assert len(model.saved) == 2


def test_history_keeps_the_last_files(fitted, tmp_path):
    fitted(epochs=4, save_path=tmp_path / "m.h5", history=2)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m_2.h5", "m_3.h5"]


def test_history_is_a_count(tmp_path):
    with pytest.raises(ValueError, match="history=0"):
        SerializeModelCallback(tmp_path / "m.h5", history=0)


def losing(model, losses, values):
    """Callbacks whose loss of epoch e is values[e]."""
    callbacks = Callbacks(model, eval_set=losses, eval_freq=1, progress_bar=False)

    def on_epoch_end(callback_data, model, epoch):
        callback_data["cost/loss"][epoch] = values[epoch]

    loss = next(each for each in callbacks.callbacks if hasattr(each, "eval_set"))
    loss.on_epoch_end = on_epoch_end
    return callbacks


def test_best_state_is_saved_when_the_loss_is_lowest(model, losses, tmp_path):
    callbacks = losing(model, losses, [3, 1, 2])
    callbacks.add_save_best_state_callback(tmp_path / "best.h5")
    model.fit(callbacks)
    assert (tmp_path / "best.h5").read_text("utf-8") == "1"


def test_function_ends_the_training(model, losses):
    def stop(state, loss):
        return loss, state is not None and loss > state

    callbacks = losing(model, losses, [3, 1, 2, 0])
    callbacks.add_early_stop_callback(stop)
    model.fit(callbacks, 4)
    assert model.finished
    assert model.epoch_index == 3
