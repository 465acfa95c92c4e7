"""Callbacks: order, frequencies, what is written, faults."""

import h5py
import numpy as np
import pytest

from atled.neon.callbacks import Callback, Callbacks


class Noting(Callback):
    def __init__(self, **freqs):
        super().__init__(**freqs)
        self.seen = []

    def on_epoch_begin(self, callback_data, model, epoch):
        self.seen.append(("epoch", epoch))

    def on_minibatch_end(self, callback_data, model, epoch, minibatch):
        self.seen.append((epoch, minibatch))


def test_callback_is_called_at_its_frequencies(model):
    noting = Noting(epoch_freq=2, minibatch_freq=2)
    callbacks = Callbacks(model, progress_bar=False)
    callbacks.add_callback(noting)
    model.fit(callbacks, epochs=2)
    assert noting.seen == [(0, 1), ("epoch", 1), (1, 1)]


def test_added_callback_is_last_or_at_its_place(model):
    callbacks, first, last = Callbacks(model), Noting(), Noting()
    callbacks.add_callback(first, insert_pos=0)
    callbacks.add_callback(last)
    assert (callbacks.callbacks[0], callbacks.callbacks[-1]) == (first, last)


def test_time_markers_count_batches(fitted):
    assert fitted().callback_data["time_markers/minibatch"][:].tolist() == [2, 4, 6]


def test_config_has_epochs_and_batches(fitted, losses):
    config = fitted(train_set=losses).callback_data["config"]
    assert (config.attrs["total_epochs"], config.attrs["total_minibatches"]) == (3, 6)


def test_second_training_begins_with_an_empty_file(model):
    callbacks = Callbacks(model, progress_bar=False)
    model.fit(callbacks, 3)
    model.fit(callbacks, 1)
    assert callbacks.callback_data["cost/train"].shape == (2,)


def test_output_file_has_what_is_in_memory(fitted, tmp_path):
    path = tmp_path / "out.h5"
    data = fitted(output_file=path).callback_data
    with h5py.File(path) as file:
        assert file["cost/train"][:].tolist() == data["cost/train"][:].tolist()


def test_output_file_is_whole_when_a_callback_fails(model, tmp_path):
    class Failing(Callback):
        def on_minibatch_end(self, callback_data, model, epoch, minibatch):
            if epoch == 1:
                raise RuntimeError("third batch")

    path = tmp_path / "out.h5"
    callbacks = Callbacks(model, output_file=path, progress_bar=False)
    callbacks.add_callback(Failing())
    with pytest.raises(RuntimeError, match="third batch"):
        model.fit(callbacks)
    with h5py.File(path) as file:
        assert file["cost/train"].shape == (2,)
    assert [each.name for each in tmp_path.iterdir()] == ["out.h5"]


def test_model_file_is_loaded(model):
    Callbacks(model, model_file="there.h5", progress_bar=False)
    assert model.loaded == ["there.h5"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"eval_freq": 1}, "eval_set="),
        ({"serialize": 1}, "save_path="),
        ({"eval_freq": -1, "eval_set": []}, "epoch_freq=-1"),
        ({"eval_freq": 1.5, "eval_set": []}, "epoch_freq=1.5"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(model, given, told):
    with pytest.raises(ValueError, match=told):
        Callbacks(model, **given)


@pytest.mark.parametrize("given", [Callback, 3])
def test_what_is_no_callback_is_refused(model, given):
    with pytest.raises(TypeError, match="no callback"):
        Callbacks(model).add_callback(given)


def test_best_state_and_early_stop_need_a_loss(model, tmp_path):
    callbacks = Callbacks(model)
    with pytest.raises(ValueError, match="eval_freq="):
        callbacks.add_save_best_state_callback(tmp_path / "best.h5")
    with pytest.raises(ValueError, match="eval_freq="):
        callbacks.add_early_stop_callback(lambda state, loss: (state, True))


def test_data_stays_readable_after_training(fitted):
    assert np.all(fitted().callback_data["time/train/end_time"][:] >= 0)


def test_file_is_written_whole_where_a_callback_fails_at_the_end(fitted, model, tmp_path):
    class Failing(Callback):
        def on_train_end(self, callback_data, model):
            raise RuntimeError("full")

    callbacks = Callbacks(model, progress_bar=False, output_file=tmp_path / "kept.h5")
    callbacks.add_callback(Failing())
    with pytest.raises(RuntimeError, match="full"):
        model.fit(callbacks, 0)
    with h5py.File(tmp_path / "kept.h5") as kept:
        assert kept["cost/train"].shape == (0,)
