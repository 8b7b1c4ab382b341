"""Counts the package's files that a reader of a call has to open.

A file counts if one of its functions runs during the call; code that runs
during imports does not count.
"""

import pathlib
import sys
import threading

import keras
import numpy as np
import pytest

import memlm_keras as memlm
from memlm_keras.experiments import command_line

ROOT = str(pathlib.Path(memlm.__file__).parent)
WORDS = [f"word_{index}" for index in range(20)]

# May only fall.
FIT, STEP, TRAIN, FRONT_DOOR, EXPORT = 13, 8, 35, 30, 3


class FirstStep(BaseException):
    """Raised after the first training step, to end the training."""


def files_entered(call):
    """Returns the sorted names of the files whose functions run in `call()`."""
    entered = set()

    def note(frame, event, argument):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT):
            return
        if _within_import(frame):
            return
        entered.add(code.co_filename[len(ROOT) + 1 :])

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    except FirstStep:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(entered)


def _within_import(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            return frame.f_code.co_filename.startswith(ROOT)
        frame = frame.f_back
    return False


def require_budget(entered, budget):
    assert len(entered) <= budget, "\n".join(entered)


@pytest.fixture
def lm():
    lm = memlm.LanguageModel(
        vocabulary=memlm.data.Vocabulary(WORDS),
        embedding_dim=4,
        recurrent=[keras.layers.LSTM(6)],
        memory=memlm.memory.KeyValuePredict(window=3),
    )
    lm.compile("adam")
    return lm


def test_fit_of_one_batch_and_step(lm):
    batches = memlm.data.Batches(np.arange(8, dtype="int32"), 2, 4)
    assert len(batches) == 1
    entered = files_entered(lambda: lm.fit(batches, verbose=0))
    require_budget(entered, FIT)
    tokens, state = np.array([[3]]), lm.initial_state(1)
    require_budget(files_entered(lambda: lm.step(tokens, state)), STEP)


@pytest.mark.parametrize(
    "arguments, budget",
    [
        ("daniluk2017/key_value_predict --scale=0.02 --batch_size=4", TRAIN),
        # README's command: the program chooses a preset for the text.
        ("", FRONT_DOOR),
    ],
)
def test_train(arguments, budget, folder, monkeypatch):
    def stop(*arguments, **keywords):
        raise FirstStep

    callbacks = keras.callbacks.CallbackList
    monkeypatch.setattr(callbacks, "on_train_batch_end", stop)
    command = f"train {arguments} --dataset=text --verbose=0"
    entered = files_entered(lambda: command_line.main(command.split()))
    assert len(entered) > 10
    require_budget(entered, budget)


@pytest.mark.backend("tensorflow")
def test_export(lm, tmp_path):
    entered = files_entered(lambda: memlm.serving.export(lm, tmp_path / "1"))
    serving = [name for name in entered if name.startswith("serving")]
    require_budget(serving, EXPORT)
