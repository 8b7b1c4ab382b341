"""All results of a memory."""

import functools


def everything(call):
    """Returns a call that asks for outputs, state and attention weights.

    Args:
        call: a memory, or its `stateless_call`.
    """
    return functools.partial(
        call, return_state=True, return_attention_scores=True
    )
