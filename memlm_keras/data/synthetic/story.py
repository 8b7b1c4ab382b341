"""The words, the people and the story so far of an embedded document."""

import dataclasses
import itertools
from dataclasses import dataclass


def _words(text):
    return tuple(text.split())


FUNCTION_WORDS = _words(
    "<eos> a all am and are as at became because born bought but called came "
    "carried from gift he her him home i in is it kept last live lived met "
    "moved named near of one she signed still that the they to was were who "
    'with worked , ? " ( ) [ ]'
)


@dataclass(frozen=True)
class Words:
    """The open word lists of the grammar.

    Words of one list are alike: only the word itself tells them apart.

    Raises:
        ValueError: A word stands in two lists, twice in one, or is a function
            word of the grammar.
    """

    women: tuple = _words("anna clara edith flora grace helen martha ruth")
    men: tuple = _words("albert david george henry john oliver peter thomas")
    surnames: tuple = _words(
        "barker bennett carter dawson ellis foster harper lowe marsh parker "
        "shaw turner"
    )
    cities: tuple = _words(
        "bath derby dover durham exeter leeds lincoln oxford ripon truro "
        "wells york"
    )
    years: tuple = _words(
        "1841 1846 1852 1857 1863 1868 1871 1874 1879 1882 1885 1890"
    )
    trades: tuple = _words(
        "baker carpenter farmer gardener miller painter potter sailor "
        "tailor weaver"
    )
    things: tuple = _words(
        "basket boat bottle cart clock coat hammer horse lamp mirror rope wagon"
    )
    many_things: tuple = _words(
        "baskets boats bottles carts clocks coats hammers horses lamps "
        "mirrors ropes wagons"
    )
    papers: tuple = _words("bill book deed letter note paper petition will")
    qualities: tuple = _words(
        "bold clean fine good grand heavy light plain quiet small strong tall"
    )
    degrees: tuple = _words("always perhaps quite rather really very")
    places: tuple = _words(
        "bridge church fountain garden harbour inn market mill quarry "
        "school stable well"
    )
    positions: tuple = _words("behind beside below beyond by outside")
    sightings: tuple = _words(
        "admired chose drew examined found left liked noticed saw wanted"
    )
    pastimes: tuple = _words("danced sang slept waited")
    manners: tuple = _words(
        "alone cheaply contentedly happily modestly peacefully quietly simply"
    )
    farewells: tuple = _words("abandoned broke damaged dropped lost pawned")
    transfers: tuple = _words("given lent offered promised sent shown sold")
    arrivals: tuple = _words("cycled hurried rode sailed travelled walked")
    purposes: tuple = _words("advise console help see teach thank visit warn")
    speeches: tuple = _words("cried explained replied said shouted whispered")
    folk: tuple = _words(
        "children everybody friends neighbours people strangers"
    )
    moods: tuple = _words(
        "busy famous happy lonely poor proud respected restless"
    )
    seasons: tuple = _words(
        "afternoon autumn day evening morning spring summer winter"
    )
    numbers: tuple = _words("two three four five six seven eight nine")

    def __post_init__(self):
        seen = set(FUNCTION_WORDS)
        for name, words in self.lists().items():
            for word in words:
                if word in seen:
                    raise ValueError(
                        f"`{name}` must hold words not used elsewhere in the "
                        f"grammar. Received: {word!r}, which is."
                    )
                seen.add(word)

    def lists(self):
        """The lists by name."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
        }

    def all(self):
        """Every token of the grammar, `<eos>` first, in a fixed order."""
        return [*FUNCTION_WORDS, *itertools.chain(*self.lists().values())]


@dataclass(frozen=True)
class Person:
    """A person, as the document has introduced them.

    People of one document have only pronouns in common.
    """

    first: str
    last: str
    city: str
    year: str
    trade: str
    pronoun: str
    objective: str


@dataclass(frozen=True)
class Story:
    """The state of a story, on which the tokens to come depend.

    Attributes:
        people: The people introduced, in order.
        subject: Index of the person whom "he" or "she" would mean.
        body: Number of sentences told after the opening.
        finished: Whether the closing sentence has been told.
    """

    people: tuple = ()
    subject: int = 0
    body: int = 0
    finished: bool = False

    @property
    def shape(self):
        """All of the story that probabilities depend on, equal for words that
        are alike."""
        return len(self.people), self.subject, self.body, self.finished

    def about(self, person):
        """The story with `person` as its subject."""
        return dataclasses.replace(self, subject=self.people.index(person))

    def updated(self, person, replacement):
        """The story with `replacement` in place of `person`."""
        index = self.people.index(person)
        people = (*self.people[:index], replacement, *self.people[index + 1 :])
        return dataclasses.replace(self, people=people)

    def used(self, attribute):
        """The words taken for `attribute` by the people so far."""
        return {getattr(person, attribute) for person in self.people}
