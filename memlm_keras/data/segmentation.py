"""Words and sentences as syntok splits them."""

import importlib
import importlib.metadata
import re

_PLAIN = str.maketrans("‘’“”", "''\"\"")


def tokenizer(tokenize):
    """Returns the function from a string to its tokens."""
    if tokenize is None:
        return str.split
    if callable(tokenize):
        return tokenize
    if tokenize != "syntok":
        raise ValueError(
            '`tokenize` must be "syntok", None (white space) or a function '
            f"from a string to its tokens. Received: tokenize={tokenize!r}"
        )
    words = _syntok_tokenizer()

    def split(text):
        # Dashes without spaces around them join clauses, for syntok too.
        text = re.sub(
            "-{2,}|—", " -- ", text.translate(_PLAIN).replace("_", " ")
        )
        return [token.value for token in words.tokenize(text)]

    return split


def _syntok_tokenizer():
    # By default it would drop hyphens, and make "not" of "n't".
    return load_syntok("tokenizer").Tokenizer(
        emit_hyphen_or_underscore_sep=True, replace_not_contraction=False
    )


def load_syntok(module):
    """Imports a module of syntok, or says how to install it."""
    try:
        return importlib.import_module(f"syntok.{module}")
    except ImportError as error:
        raise ImportError(
            'Splitting into sentences and `tokenize="syntok"` need syntok. '
            "Install it with `pip install syntok`; questions can also be read "
            "with `tokenize=None`."
        ) from error


def sentences_of(text):
    """Yields the sentences of a text, each a string of one line."""
    segmenter, words = load_syntok("segmenter"), _syntok_tokenizer()
    for paragraph in re.split(r"\n\s*\n", text):
        paragraph = " ".join(paragraph.split())
        for tokens in segmenter.segment(words.tokenize(paragraph)):
            sentence = "".join(map(str, tokens)).strip()
            # Lines of stars and the like part sections.
            if any(map(str.isalnum, sentence)):
                yield sentence


def split_sentences(tokens):
    """Yields the sentences of a text that is split into tokens already.

    The tokens stay what they are: a stop is a token of its own where it ends a
    sentence, and part of the word in an abbreviation. Quotation marks that end
    a sentence belong to it, semicolons end none.

    Args:
        tokens: List of strings.

    Yields:
        Lists of strings, which together are `tokens`.

    Example:

    >>> list(split_sentences("He left No. 2 . She stayed .".split()))
    [['He', 'left', 'No.', '2', '.'], ['She', 'stayed', '.']]
    """
    segment = load_syntok("segmenter").segment
    token_of = load_syntok("tokenizer").Token
    seen, offset, quoting = [], 0, False
    for token in tokens:
        quotes = token == '"'
        # What tells a closing mark from an opening one is the space before.
        space = "" if quotes and quoting else " "
        quoting ^= quotes
        value = "," if token == ";" else token
        seen.append(token_of(space, value, offset))
        offset += len(token) + 1
    begin = 0
    for sentence in segment(iter(seen)):
        yield tokens[begin : begin + len(sentence)]
        begin += len(sentence)


def splitter_version():
    """Name and version of what splits sentences, a string."""
    load_syntok("segmenter")
    return f"syntok {importlib.metadata.version('syntok')}"
