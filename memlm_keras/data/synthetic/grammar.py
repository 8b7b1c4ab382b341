"""The grammar of the embedded corpus: documents that refer back to their facts.

The grammar is a program that speaks one token at a time through an
*interpreter*:

* `interpreter.say("was born in")` speaks tokens that are certain.
* `interpreter.draw({"the": 3, "who": 1})` speaks one token, drawn by weight.
* `interpreter.pick(("red", "green"))` speaks one token, drawn uniformly from
  words that are alike: whichever is taken, the rest of the document differs
  only in that word.

What the grammar does next depends on the spoken tokens alone, and every draw
speaks its outcome. So a text has one derivation, and its probability is the
product of its draws. `interpreters.py` holds the interpreters: a sampler, a
scorer of a given text, and an enumerator of all paths.
"""

import dataclasses
from dataclasses import dataclass

from memlm_keras.data.synthetic import phrases
from memlm_keras.data.synthetic.story import Person
from memlm_keras.data.synthetic.story import Story
from memlm_keras.data.synthetic.story import Words


@dataclass(frozen=True)
class Grammar:
    """Documents about one to `max_people` people.

    Args:
        words: `Words`, the word lists.
        max_people: Most people in one document.
        min_body: Fewest sentences between the opening and the closing.
        max_body: Most sentences between the opening and the closing.

    Raises:
        ValueError: A word list is too short for `max_people`, or the numbers
            of sentences are not in order.
    """

    words: Words = Words()
    max_people: int = 3
    min_body: int = 3
    max_body: int = 8

    def __post_init__(self):
        if self.max_people < 1:
            raise ValueError(
                "`max_people` must be at least 1. Received: "
                f"max_people={self.max_people}"
            )
        if not 0 <= self.min_body <= self.max_body:
            raise ValueError(
                "`min_body` and `max_body` must satisfy 0 <= min_body <= "
                f"max_body. Received: min_body={self.min_body}, "
                f"max_body={self.max_body}"
            )
        people = self.max_people
        lists = self.words.lists()
        lists["women and men"] = lists.pop("women") + lists.pop("men")
        least = dict.fromkeys(("women and men", "surnames", "years"), people)
        # One city is left to move to, and two things are bought at once.
        least |= {"trades": people, "cities": people + 1, "things": 2}
        for name, words in lists.items():
            if len(words) < least.get(name, 1):
                raise ValueError(
                    f"`words` must have at least {least.get(name, 1)} {name} "
                    f"for max_people={people}. Received: {words}"
                )

    def document(self, interpreter):
        """Speaks one whole document through `interpreter`."""
        story = Story()
        while not story.finished:
            story = self.sentence(interpreter, story)

    def sentence(self, interpreter, story):
        """Speaks the next sentence; returns the `Story` after it."""
        if not story.people:
            return self._opening(interpreter, story)
        current = story.people[story.subject]
        start = interpreter.draw(self._starts(story))
        story = dataclasses.replace(story, body=story.body + 1)
        if start == "the":
            return self._thing(interpreter, story)
        if start == '"':
            return self._quotation(interpreter, story)
        if start == "who":
            return self._question(interpreter, story)
        if start == "one":
            return self._arrival(interpreter, story)
        if start == "at":
            return self._closing(interpreter, story)
        if start == current.pronoun:
            return self._deed(interpreter, story, current, named=False)
        person = next(p for p in story.people if p.first == start)
        return self._deed(interpreter, story.about(person), person, named=True)

    def _starts(self, story):
        starts = {}
        if story.body < self.max_body:
            starts = {"the": 3, '"': 2, "who": 2}
            starts[story.people[story.subject].pronoun] = 3
            starts |= {p.first: 4 / len(story.people) for p in story.people}
            if len(story.people) < self.max_people:
                starts["one"] = 3
        if story.body >= self.min_body:
            starts["at"] = 4
        return starts

    # Sentences, in the order of a document.

    def _opening(self, interpreter, story):
        first, last = self._new_name(interpreter, story)
        if interpreter.draw({"was": 1, ",": 1}) == "was":
            interpreter.say("born in")
            city = self._new(interpreter, story, "city")
            interpreter.say("in")
            year = self._new(interpreter, story, "year")
            interpreter.say("and became a")
            trade = self._new(interpreter, story, "trade")
        else:
            interpreter.say("a")
            trade = self._new(interpreter, story, "trade")
            interpreter.say("from")
            city = self._new(interpreter, story, "city")
            interpreter.say(", was born in")
            year = self._new(interpreter, story, "year")
        interpreter.say("<eos>")
        return self._introduce(story, first, last, city, year, trade)

    def _arrival(self, interpreter, story):
        interpreter.pick(self.words.seasons)
        interpreter.say("a")
        trade = self._new(interpreter, story, "trade")
        interpreter.say("from")
        city = self._new(interpreter, story, "city")
        interpreter.say("named")
        first, last = self._new_name(interpreter, story)
        interpreter.say(", born in")
        year = self._new(interpreter, story, "year")
        interpreter.say(",")
        interpreter.pick(self.words.arrivals)
        interpreter.say("to")
        host = phrases.someone(interpreter, story.people, "city")
        interpreter.say("to")
        interpreter.pick(self.words.purposes)
        interpreter.say(f"{host.first} <eos>")
        return self._introduce(story, first, last, city, year, trade)

    def _deed(self, interpreter, story, person, named):
        """Speaks a deed of `person`, just `named` or meant by a pronoun."""
        others = phrases.without(story.people, {person})
        deeds = {"still": 2, "was": 3, "signed": 2, "moved": 1}
        deeds |= {"bought": 2, "carried": 2}
        pastimes = self.words.pastimes
        deeds |= dict.fromkeys(pastimes, 1.5 / len(pastimes))
        if others:
            deeds["met"] = 2
        deed = interpreter.draw(deeds | {"(": 1, "[": 1} if named else deeds)
        if deed in phrases.BRACKETS:
            phrases.aside_on_person(interpreter, self.words, person, deed)
            deed = interpreter.draw(deeds)
        if deed == "still":
            interpreter.say("lived")
            interpreter.pick(self.words.manners)
            interpreter.say(f"in {person.city}")
        elif deed == "was":
            if interpreter.draw({"born": 1, "a": 1}) == "born":
                interpreter.say(f"in {person.year}")
            else:
                interpreter.pick(self.words.qualities)
                interpreter.say(person.trade)
        elif deed == "signed":
            interpreter.say("the")
            interpreter.pick(self.words.qualities)
            interpreter.pick(self.words.papers)
            interpreter.say(f"as {person.first} {person.last}")
        elif deed == "moved":
            interpreter.say(f"from {person.city} to")
            moved = dataclasses.replace(
                person, city=self._new(interpreter, story, "city")
            )
            story, person = story.updated(person, moved), moved
        elif deed == "bought":
            phrases.bargain(interpreter, self.words)
        elif deed == "carried":
            number = interpreter.pick(self.words.numbers)
            interpreter.pick(self.words.qualities)
            interpreter.pick(self.words.many_things)
            interpreter.say("to the")
            interpreter.pick(self.words.places)
            interpreter.say(f"and came home with all {number}")
        elif deed == "met":
            other = phrases.someone(interpreter, others, "first")
            interpreter.say(f"{other.last} of {other.city}")
            phrases.place(interpreter, self.words)
        else:
            phrases.place(interpreter, self.words)
        phrases.tail(interpreter, self.words, person)
        return story

    def _thing(self, interpreter, story):
        """A thing or things, and a verb that agrees across a distance."""
        noun, be, pronoun = phrases.noun(interpreter, self.words)
        link = interpreter.draw({"that": 4, "near": 3, "(": 1, "[": 1, be: 1})
        if link == "that":
            phrases.someone(interpreter, story.people, "first")
            interpreter.pick(self.words.sightings)
            link = interpreter.draw({"at": 2, "(": 1, "[": 1, be: 1})
            if link == "at":
                interpreter.say("the")
                interpreter.pick(self.words.places)
                interpreter.say(be)
        elif link == "near":
            interpreter.say("the")
            phrases.noun(interpreter, self.words, besides=noun)
            interpreter.say(be)
        if link in phrases.BRACKETS:
            phrases.aside_on_thing(interpreter, self.words, story, link)
            interpreter.say(be)
        phrases.quality(interpreter, self.words)
        if interpreter.draw({"<eos>": 1, ",": 1}) == ",":
            interpreter.say(f"and {pronoun} {be}")
            interpreter.pick(self.words.transfers)
            interpreter.say("to")
            buyer = phrases.someone(interpreter, story.people, "first")
            interpreter.say(f"{buyer.last} the {buyer.trade} <eos>")
        return story

    def _quotation(self, interpreter, story):
        """Speech from which a reader who remembers knows the speaker."""
        interpreter.say("i")
        claim = interpreter.draw({"live": 1, "was": 1, "am": 1})
        if claim == "live":
            interpreter.say("in")
            speaker = phrases.someone(interpreter, story.people, "city")
        elif claim == "was":
            interpreter.say("born in")
            speaker = phrases.someone(interpreter, story.people, "year")
        else:
            interpreter.say("a")
            interpreter.pick(self.words.qualities)
            speaker = phrases.someone(interpreter, story.people, "trade")
        if interpreter.draw({'"': 2, "and": 1}) == "and":
            interpreter.say("the")
            noun, be, _ = phrases.noun(interpreter, self.words)
            interpreter.say("near the")
            phrases.noun(interpreter, self.words, besides=noun)
            interpreter.say("is" if be == "was" else "are")
            phrases.quality(interpreter, self.words)
            interpreter.say('"')
        interpreter.pick(self.words.speeches)
        interpreter.say(f"{speaker.first} {speaker.last}")
        phrases.tail(interpreter, self.words, speaker)
        return story.about(speaker)

    def _question(self, interpreter, story):
        clue = interpreter.draw({"lived": 1, "was": 1, "worked": 1})
        if clue == "lived":
            interpreter.say("in")
            answer = phrases.someone(interpreter, story.people, "city")
        elif clue == "was":
            interpreter.say("born in")
            answer = phrases.someone(interpreter, story.people, "year")
        else:
            interpreter.say("as a")
            answer = phrases.someone(interpreter, story.people, "trade")
        interpreter.say(f"? it was {answer.first} {answer.last}")
        phrases.tail(interpreter, self.words, answer)
        return story.about(answer)

    def _closing(self, interpreter, story):
        """The first person goes home, as remembered from the opening."""
        hero = story.people[0]
        interpreter.say(f"last the {hero.trade} {hero.first} {hero.last}")
        interpreter.pick(self.words.arrivals)
        interpreter.say(f"home to {hero.city} <eos>")
        return dataclasses.replace(story, finished=True)

    def _new(self, interpreter, story, attribute):
        """Picks a word that tells a person from all others of the story."""
        words = getattr(self.words, _LISTS[attribute])
        return interpreter.pick(phrases.without(words, story.used(attribute)))

    def _new_name(self, interpreter, story):
        names = self.words.women + self.words.men
        first = interpreter.pick(phrases.without(names, story.used("first")))
        return first, self._new(interpreter, story, "last")

    def _introduce(self, story, first, last, city, year, trade):
        woman = first in self.words.women
        pronouns = ("she", "her") if woman else ("he", "him")
        person = Person(first, last, city, year, trade, *pronouns)
        people = story.people + (person,)
        return dataclasses.replace(story, people=people).about(person)


_LISTS = {
    "last": "surnames",
    "city": "cities",
    "year": "years",
    "trade": "trades",
}
