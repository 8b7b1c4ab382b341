"""Writes tiny corpora in the formats of the published corpora.

Random words have fixed seeds, so every call writes the same words.
"""

import json
import pathlib

import numpy as np
import pytest

SHARED = pathlib.Path(__file__).parents[2] / "shared" / "data"
WORDS = ("the", "old", "man", "saw", "a", "sea")


def shared_data(*names):
    """Returns a path below `../shared/data`; skips the test if it is
    missing."""
    path = SHARED.joinpath(*names)
    if not path.exists():
        pytest.skip(f"{'/'.join(names)} is not in ../shared/data")
    return path


# === Plain text ===


def sentences(count, words=WORDS, seed=0):
    """Draws `count` sentences of 1 to 11 words."""
    generator = np.random.default_rng(seed)
    return [
        " ".join(generator.choice(words, generator.integers(1, 12)))
        for _ in range(count)
    ]


def write_lines(path, lines):
    """Writes a UTF-8 file with a line feed after each line."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_splits(folder, unknown=False):
    """Writes `train.txt`, `valid.txt` and `test.txt`, and makes the folder.

    With `unknown`, the first line of each file contains `<unk>`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"train": 60, "valid": 20, "test": 20}
    for seed, (split, count) in enumerate(sizes.items()):
        lines = sentences(count, seed=seed)
        if unknown:
            lines[0] += " <unk>"
        write_lines(folder / f"{split}.txt", lines)


def write_file(path, lines=80):
    """Writes a text in which only the word `whale` occurs exactly once."""
    text = sentences(lines)
    text[3] += " whale"
    write_lines(path, text)


def write_documents(folder, count=12):
    """Makes a folder with one file for each document."""
    folder.mkdir(parents=True)
    for number in range(count):
        write_lines(folder / f"{number}.txt", sentences(6, seed=number))


# === The Children's Book Test ===

CBT_SENTENCES = [f"This is sentence {number} ." for number in range(1, 21)]
CBT_CANDIDATES = "Ann|Bob|Cat|Dan|Eve|Fay|Gus|Hal|Ida|Joe"
CBT_QUERY = f"`` Who is it ? '' said XXXXX .\tDan\t\t{CBT_CANDIDATES}"
CBT_ENDINGS = ("train.txt", "valid_2000ex.txt", "test_2500ex.txt")
CBT_WORD_TYPES = ("NE", "CN", "V", "P")


def cbt_question(query=CBT_QUERY, context=CBT_SENTENCES):
    """Returns one question as text, followed by a blank line."""
    lines = [*context, query]
    return "".join(f"{n} {line}\n" for n, line in enumerate(lines, 1)) + "\n"


def write_cbt(folder, word_types=CBT_WORD_TYPES):
    """Writes the books, and files with 1, 2 and 3 questions for each type."""
    folder.mkdir(parents=True)
    for word_type in word_types:
        for number, ending in enumerate(CBT_ENDINGS, 1):
            path = folder / f"cbtest_{word_type}_{ending}"
            path.write_text(cbt_question() * number)
    for split in ("train", "valid", "test"):
        write_lines(
            folder / f"cbt_{split}.txt",
            [
                "_BOOK_TITLE_ : Andrew_Lang___Prince_Prigio.txt.out",
                "A king lived .",
                f"It was in {split} .",
                "_BOOK_TITLE_ : E._Nesbit___The_Book_of_Dragons.txt.out",
                "A dragon .",
            ],
        )


# === The Sentence Completion Challenge ===


def machine_form(texts, first=1):
    """Returns the text of the questions, numbered from `first`, and of the
    answers.

    `texts` contains triples: a sentence with `{}` for the blank and without the
    full stop, five candidates, and the index of the answer.
    """
    questions, answers = [], []
    for number, (text, candidates, right) in enumerate(texts, first):
        lines = [
            f"{number}{letter}) {text.format(f'[{candidate}]')}.\n"
            for letter, candidate in zip("abcde", candidates)
        ]
        questions += lines
        answers.append(lines[right])
    return "".join(questions), "".join(answers)


def write_novels(folder):
    """Makes a folder with novels in Project Gutenberg's format."""
    folder.mkdir(parents=True)
    begin, end = (
        f"*** {word} OF THE PROJECT GUTENBERG EBOOK A TALE ***"
        for word in ("START", "END")
    )
    for number in range(12):
        lines = [f"The {line}." for line in sentences(8, seed=number)]
        write_lines(folder / f"{number}.txt", [begin, *lines, end])


# === Pairs of sentences ===


def snli_record(label, premise, hypothesis):
    """Returns a pair as a record of SNLI; the sentences are binary parses."""
    return {
        "annotator_labels": [label],
        "captionID": "3.jpg#1",
        "gold_label": label,
        "pairID": "3.jpg#1r1n",
        "sentence1": "whatever",
        "sentence1_binary_parse": premise,
        "sentence2": "whatever",
        "sentence2_binary_parse": hypothesis,
    }


SNLI_RECORDS = [
    snli_record("neutral", "( ( A man ) ( sits . ) )", "( He ( rests . ) )"),
    snli_record("-", "( ( A man ) ( sits . ) )", "( He ( eats . ) )"),
    snli_record("entailment", '( It ( " ( is " ) ) )', "( Él ( is . ) )"),
    snli_record("contradiction", "( A ( b . ) )", "Alone"),
]


def write_snli(folder, ending=".jsonl"):
    """Makes a folder with three splits that contain the same records."""
    folder.mkdir(parents=True)
    for name in ("train", "dev", "test"):
        if ending == ".jsonl":
            lines = [json.dumps(r, ensure_ascii=False) for r in SNLI_RECORDS]
        else:
            rows = [SNLI_RECORDS[0], *(r.values() for r in SNLI_RECORDS)]
            lines = ["\t".join(map(str, row)) for row in rows]
        write_lines(folder / f"snli_1.0_{name}{ending}", lines)


def write_sick(folder):
    """Writes the files of SICK with a few pairs each."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    labels = ("ENTAILMENT", "NEUTRAL", "CONTRADICTION")
    header = ("pair_ID", "sentence_A", "sentence_B", "entailment_judgment")
    sizes = {"train": 40, "trial": 10, "test_annotated": 12}
    for name, count in sizes.items():
        rows = [header]
        for n in range(count):
            words = generator.choice(["a", "man", "dog", "is", "not"], (2, 5))
            rows.append((str(n), *map(" ".join, words), labels[n % 3]))
        write_lines(folder / f"SICK_{name}.txt", map("\t".join, rows))


def write_vectors(path, words, dimension=3):
    """Writes word vectors in GloVe's format."""
    generator = np.random.default_rng(0)
    write_lines(
        path,
        [
            " ".join(
                [word, *(f"{x:.3f}" for x in generator.normal(size=dimension))]
            )
            for word in words
        ],
    )


# === Test suites ===


def suite(name="number_mine", **others):
    """Returns a test suite of SyntaxGym with the words of the small models."""
    texts = {
        1: {"same": "w1 w2,w3,,w4 w5", "other": "w1 w2,w6 w7,w8,w4"},
        2: {"same": ",zebra,w2,w3", "other": "w1,zebra,w2,"},
    }
    return {
        "meta": {"name": name, "metric": "sum", **others},
        "region_meta": {"1": "subject", "2": "verb", "3": "x", "4": "end"},
        "predictions": [
            {"type": "formula", "formula": "(2;%same%) < (2;%other%)"},
            {"type": "formula", "formula": "(*;%same%) > (4;%other%)"},
        ],
        "items": [
            {
                "item_number": number,
                "conditions": [
                    {
                        "condition_name": condition,
                        "regions": [
                            {"region_number": place, "content": text}
                            for place, text in enumerate(regions.split(","), 1)
                        ],
                    }
                    for condition, regions in conditions.items()
                ],
            }
            for number, conditions in texts.items()
        ],
    }


# === Treebanks ===

PARSED = """\
1\tthe\t_\t_\t_\t_\t3\tdet\t_\t_
2\tgrey\t_\t_\t_\t_\t3\tamod\t_\t_
3\tsea\t_\t_\t_\t_\t4\tnsubj\t_\t_
4\tsaw\t_\t_\t_\t_\t0\troot\t_\t_
5\tships\t_\t_\t_\t_\t4\tobj\t_\t_
"""


def write_treebank(folder, name="xx_y"):
    """Writes the three files of a treebank, and makes the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        path = folder / f"{name}-ud-{split}.conllu"
        path.write_text(f"{PARSED}\n" * 20)


# === Files for the examples in docstrings ===

_MANASSE = """\
1\tManasse\t_\t_\t_\t_\t5\tnsubj\t_\t_
2\tist\t_\t_\t_\t_\t5\tcop\t_\t_
3\tein\t_\t_\t_\t_\t5\tdet\t_\t_
4\teinzigartiger\t_\t_\t_\t_\t5\tamod\t_\t_
5\tParfümeur\t_\t_\t_\t_\t0\troot\t_\t_
6\t.\t_\t_\t_\t_\t5\tpunct\t_\t_

"""


def write_examples(folder):
    """Writes small files with the names in the docstrings' examples."""
    lines = sentences(20)
    for name in ("train", "valid", "test", "notes"):
        write_lines(folder / f"{name}.txt", ["no it was n't", *lines])
    documents = [
        line
        for number, title in enumerate(("Bath", "York", *range(10)))
        for line in (f"= {title} =", *sentences(4, seed=number))
    ]
    for name in ("documents", "wikipedia"):
        write_lines(folder / f"{name}.txt", documents)
    write_novels(folder / "Holmes_Training_Data")
    write_cbt(folder / "CBTest" / "data")
    (folder / "cbtest_V_train.txt").write_text(cbt_question())
    words = ("crying", "sitting", "standing", "walking", "eating")
    forms = machine_form([("You are {} alone", words, 0)])
    for name, text in zip(("questions", "answers"), forms):
        (folder / f"Holmes.machine_format.{name}.txt").write_text(text)
    write_snli(folder / "snli")
    dev = folder / "snli" / "snli_1.0_dev.jsonl"
    dev.rename(folder / dev.name)
    write_sick(folder / "SICK")
    (folder / "SICK_trial.txt").write_bytes(
        (folder / "SICK" / "SICK_trial.txt").read_bytes()
    )
    for split in ("train", "dev", "test"):
        path = folder / f"de_gsd-ud-{split}.conllu"
        path.write_text(_MANASSE * 6, encoding="utf-8")
