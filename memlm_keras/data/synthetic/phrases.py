"""Phrases that the sentences of the embedded corpus share.

Each speaks through an interpreter, as `grammar.py` tells.
"""

BRACKETS = {"(": ")", "[": "]"}


def tail(interpreter, words, person):
    """Ends a sentence about `person`."""
    link = interpreter.draw({"<eos>": 5, "and": 2, "because": 2, "but": 1})
    if link == "and":
        interpreter.pick(words.folk)
        interpreter.say(f"called {person.objective} the {person.trade}")
        interpreter.say(f"of {person.city}")
    elif link == "because":
        interpreter.say("the")
        _, be, _ = noun(interpreter, words)
        place(interpreter, words)
        interpreter.say(be)
        quality(interpreter, words)
    elif link == "but":
        interpreter.say(f"{person.pronoun} was")
        interpreter.pick(words.moods)
        interpreter.say(f"in {person.city}")
    if link != "<eos>":
        interpreter.say("<eos>")


def bargain(interpreter, words):
    """Two things are bought; one is then named, and memory tells the other."""
    interpreter.say("a")
    interpreter.pick(words.qualities)
    one = interpreter.pick(words.things)
    interpreter.say("and a")
    interpreter.pick(words.qualities)
    two = interpreter.pick(without(words.things, {one}))
    interpreter.say("at the")
    interpreter.pick(words.places)
    interpreter.say(",")
    interpreter.pick(words.farewells)
    interpreter.say("the")
    gone = interpreter.pick((one, two))
    interpreter.say(f"and kept the {two if gone == one else one}")


def aside_on_person(interpreter, words, person, opening):
    """Brackets about `person`, perhaps with other brackets inside."""
    closing, inner = BRACKETS[opening], _other_bracket(opening)
    interpreter.say(f"a {person.trade}")
    step = interpreter.draw({closing: 1, "of": 1, inner: 1})
    if step == inner:
        interpreter.say(f"born in {person.year} {BRACKETS[inner]}")
        step = interpreter.draw({closing: 1, "of": 1})
    if step == "of":
        interpreter.say(f"{person.city} {closing}")


def aside_on_thing(interpreter, words, story, opening):
    """Brackets about a thing, perhaps with other brackets inside."""
    closing, inner = BRACKETS[opening], _other_bracket(opening)
    interpreter.say("a")
    interpreter.pick(words.qualities)
    interpreter.say("gift from")
    giver = someone(interpreter, story.people, "first")
    interpreter.say(giver.last)
    if interpreter.draw({closing: 1, inner: 1}) == inner:
        interpreter.say(f"the {giver.trade} of {giver.city}")
        interpreter.say(f"{BRACKETS[inner]} {closing}")


def noun(interpreter, words, besides=None):
    """Speaks of a thing or of things.

    Returns:
        The noun, and the past verb and the pronoun that agree with it.
    """
    interpreter.pick(words.qualities)
    spoken = interpreter.pick(
        without(words.things + words.many_things, {besides})
    )
    if spoken in words.things:
        return spoken, "was", "it"
    return spoken, "were", "they"


def quality(interpreter, words):
    interpreter.pick(words.degrees)
    interpreter.pick(words.qualities)


def place(interpreter, words):
    interpreter.pick(words.positions)
    interpreter.say("the")
    interpreter.pick(words.places)


def someone(interpreter, people, attribute):
    """Speaks the `attribute` of one of `people`; returns whose it is."""
    spoken = interpreter.draw(
        {getattr(person, attribute): 1 for person in people}
    )
    return next(
        person for person in people if getattr(person, attribute) == spoken
    )


def without(words, used):
    return tuple(word for word in words if word not in used)


def _other_bracket(opening):
    return "[" if opening == "(" else "("
