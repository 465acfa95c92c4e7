"""Plugins that are wrong on purpose, each in one way that the kit must notice; `shelf` and `shelf_queue` are right.

    pytest --pyargs atled.conformance --atled-plugin atled.conformance.broken.wrong_value:PLUGIN

`FAULTS` says, per module, which check must fail for which op, and with which words.
"""

from __future__ import annotations

from atled.named_tuple import NamedTuple


class Fault(NamedTuple):
    """What one broken plugin does, and how the kit shows it."""

    check: str
    op: str
    words: str


FAULTS: dict[str, Fault] = {
    "wrong_value": Fault("values", "Tanh", "Not equal to tolerance"),
    "wrong_gradient": Fault("gradients", "Sigmoid", "gradient of x"),
    "wrong_precision": Fault("values", "Exp", "Not equal to tolerance"),
    "rounds_factors": Fault("values", "BatchMatmul", "Not equal to tolerance"),
    "sums_narrowly": Fault("narrow_sums", "Sum", "Not equal to tolerance"),
    "rounds_integers": Fault("integers", "Mul2", "Arrays are not equal"),
    "lacks_methods": Fault("methods", "ShelfArray", "ShelfArray has no copy, fill, view"),
    "wrong_dtype": Fault("round_trip", "ShelfArray-float64", "does not come back as it went"),
    "overlapping_parts": Fault("parts", "ShelfArray-float32", "parts are not kept apart"),
    "wrong_for_empty": Fault("edge_shapes", "Abs", "for arrays of shape (0,)"),
    "wrong_for_nan": Fault("special_values", "ReLU", "of nan is 0.0"),
    "wrong_device": Fault("device_ids", "ShelfArray", "an array for device '1'"),
    "wrong_preset": Fault("presets", "-", "names backend 'reference' first"),
    "wrong_interchange": Fault("interchange", "shelf", "through DLPack on the device"),
    "unknown_op": Fault("registration", "-", "there is no op 'Convolutoin'"),
    "outdated": Fault("registration", "-", "Sum is written for version {99}"),
    "lies_in_accepts": Fault("runs", "Transpose", "accepts said yes"),
    "refuses_without_reason": Fault("accepts", "Sum", "gave False instead of True or a reason in words"),
    "raises_in_accepts": Fault("accepts", "Sum", "accepts raised KeyError"),
    "refuses_nothing": Fault("refusals", "Embed", "accepted"),
    "runs_elsewhere": Fault("placement", "Tanh", "let the engine compute an op"),
    "hides_the_reference": Fault("placement", "Mul2", "called the reference of Mul2"),
    "imports_eagerly": Fault("lazy_import", "-", "also imports _hypothesis_globals, hypothesis"),
    "out_of_order": Fault("queue_order", "ShelfArray", "is not done in the order"),
    "uploads_late": Fault("round_trip", "ShelfArray-float32", "does not come back as it went"),
    "puts_words_late": Fault(
        "words", "ShelfArray", "what a copy reads behind put_words: [-1 -1 -1] instead of [1 2 3]"
    ),
    "puts_words_early": Fault("words", "ShelfArray", "what a copy reads behind put_words: [0 0 0] instead of [1 2 3]"),
    "reads_state_late": Fault("runs", "Rand", "run: Rand.y"),
    "leaks_device_memory": Fault("memory_returned", "ShelfArray", "bytes in use after the same work"),
    "leaks_host_memory": Fault("leaks", "Tanh", "bytes more"),
    "shares_scratch": Fault("threads", "Tanh", "threads disturb each other"),
    "changes_inputs": Fault("purity", "Cos", "changed its input x"),
    "keeps_state": Fault("purity", "AddScalar", "a second run gives something else"),
    "ignores_failures": Fault("heeded_failures", "SgdUpdate", "behind a failure it changed w"),
    "groups_ignore_failures": Fault("heeded_failures", "SgdUpdate", "a group of calls changed w behind a failure"),
    "ignores_channel_last": Fault("values", "MaxPooling", "Not equal to tolerance"),
    "writes_omitted": Fault("omissions", "MaxPooling", "it omits place, its run without failed"),
    "forgets_formulas": Fault("attached", "Sum", "Sum with a formula behind y"),
    "wrong_groups": Fault("groups", "Tanh", "call 1 of a group gives something else than alone"),
    "waits_in_queue": Fault("queued", "Tanh", "it says queued=True, and waited for the device in a run"),
    "keeps_a_word": Fault("runs", "AddScalar", "launch of bind: AddScalar.y"),
    "begins_at_zero": Fault("strides", "Transpose", "in C order behind 3 elements of larger memory"),
    "forgets_strides": Fault("strides", "Transpose", "Not equal to tolerance"),
    "leaves_gaps": Fault("runs", "Identity", "Not equal to tolerance"),
}
