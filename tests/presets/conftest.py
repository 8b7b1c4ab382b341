import keras
import pytest


@pytest.fixture
def not_drawn():
    """Weights have shapes and no values.

    To make those of a large model only to count them takes seconds, and memory.
    """
    with keras.StatelessScope(initialize_variables=False):
        yield
    # Keras remembers what has no values yet, and would make them later.
    keras.utils.clear_session(free_memory=False)
