"""Public corpora: where to download them, and how to read them."""

import dataclasses
import hashlib
import os
import pathlib
import socket
import tempfile
import time
import warnings

from memlm_keras.data.corpus import SPLITS
from memlm_keras.data.corpus import cache_folder
from memlm_keras.data.corpus import encode_sources
from memlm_keras.data.corpus import stored_vocabulary
from memlm_keras.data.text_store import TextSource
from memlm_keras.files import atomic_path

_TRIES = 3
_FIRST_WAIT_SECONDS = 1.0
_SILENCE_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class _PublicCorpus:
    """Addresses, checksums and `TextSource` options of a public corpus."""

    urls: tuple
    archive_checksum: str
    folder_in_archive: str
    files: tuple = ()  # Per split: name, size, checksum or `None`.
    reading: dict = dataclasses.field(default_factory=dict)  # For `TextSource`.


_PUBLIC = {
    "ptb": _PublicCorpus(
        (
            "https://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
            "http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
        ),
        "30177ea32e27c525793142b6bf2c8e2d",
        "simple-examples/data",
        (
            ("ptb.train.txt", 5_101_618, "f26c4b92c5fdc7b3f8c7cdcb991d8420"),
            ("ptb.valid.txt", 399_782, "aa0affc06ff7c36e977d7cd49e3839bf"),
            ("ptb.test.txt", 449_945, "8b80168b89c18661a38ef683c0dc3721"),
        ),
    ),
    "wikitext-2": _PublicCorpus(
        (
            "https://wikitext.smerity.com/wikitext-2-v1.zip",
            "https://s3.amazonaws.com/research.metamind.io/wikitext/"
            "wikitext-2-v1.zip",
        ),
        "92675f1d63015c1c8b51f1656a52d5bdbdc33aafa60cc47a218a66e7ee817488",
        "wikitext-2",
        (
            (
                "wiki.train.tokens",
                10_797_148,
                "9e9fa1ad55b1c2c95b08e37dd8e653f6"
                "38fac2c6de904b79e813611eefbc985f",
            ),
            (
                "wiki.valid.tokens",
                1_121_681,
                "f0737ed31fc1329026e95cb8b98e19c2"
                "a182c39c240ab909dc31abf2f8af58e8",
            ),
            (
                "wiki.test.tokens",
                1_256_449,
                "d790b833ef8cf03a90db7bf1271b7520"
                "b83c45ce07ba3c1a9699df81e239eca0",
            ),
        ),
        {
            "keep_blank_lines": True,
            # Titles have one equals sign on each side, section headings more.
            # Formulas that look like titles have no blank lines around them.
            "document_start": r" = (?!= ).*(?<! =) = $",
            "lone_titles": True,
        },
    ),
    "cbt": _PublicCorpus(
        (
            "http://www.thespermwhale.com/jaseweston/babi/CBTest.tgz",
            "http://parl.ai/downloads/cbt/cbt.tar.gz",
        ),
        "932df0cadc1337b2a12b4c696b1041c1d1c6d4b6bd319874c6288f02e4a61e92",
        "CBTest/data",
        # Only the checksum of the archive is published.
        tuple(
            (f"cbt_{split}.txt", None, None)
            for split in ("train", "valid", "test")
        ),
        {
            # Each title line holds a file name, such as
            # `_BOOK_TITLE_ : Andrew_Lang___Prigio.txt.out`.
            "document_start": "_BOOK_TITLE_ :",
            "drop_titles": True,
        },
    ),
    # The module `pair_corpora` reads the sentence pairs of SNLI.
    "snli": _PublicCorpus(
        ("https://nlp.stanford.edu/projects/snli/snli_1.0.zip",),
        "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
        "snli_1.0",
    ),
}


def load(
    name,
    data_dir=None,
    cache_dir=None,
    vocabulary=None,
    verify=True,
    vocabulary_size=None,
    sentences=False,
):
    """Loads a public corpus in the form that published results use.

    * `"ptb"`: Mikolov's version of Penn Treebank, without document boundaries.
    * `"wikitext-2"`: WikiText-2. As in published results, each blank line adds
      an end-of-sentence token. A line ` = Title = ` between two blank lines
      begins a document; the three splits have 600, 60 and 60 documents.
    * `"cbt"`: the books of the Children's Book Test (Hill et al., 2016); each
      is a document. `load_cbt` can also load the test's questions as a corpus,
      and limit the vocabulary.
    * `"embedded"`: the small corpus included in the package.

    Every line ends with an end-of-sentence token. The encoded text is cached
    and memory-mapped.

    A line of WikiText-2 is a paragraph. With `sentences=True`, each heading and
    each sentence ends with an end-of-sentence token (Salton et al., 2017). In
    the three splits, syntok 1.4.4 finds 82,309, 8,599 and 9,996 sentences with
    2,134,219, 222,485 and 251,207 tokens. Lines and sentences give the same
    vocabulary. Perplexities by line and by sentence are not comparable, because
    the numbers of end-of-sentence tokens differ.

    Args:
        data_dir: Folder that contains the files, a subfolder with the name of
            the corpus, or the unpacked archive; `None` downloads the files.
        cache_dir: Folder for downloads and encoded text. The default is the
            environment variable `MEMLM_KERAS_HOME` or `~/.keras/memlm_keras`.
        vocabulary: `Vocabulary` for all splits; `None` builds one from the
            training text. The corpus `"embedded"` always has its own.
        verify: Whether to check the files' sizes and checksums. For `"cbt"`,
            only the downloaded archive has a checksum.
        vocabulary_size: Largest number of entries, including the two special
            tokens; the most frequent tokens are kept. `None` keeps all tokens,
            as the literature does.
        sentences: Whether to split the lines of WikiText-2 into sentences.

    Returns:
        `Corpus`, named `"wikitext-2-sentences"` for WikiText-2 by sentence.

    Raises:
        ValueError: The name is unknown; a file is empty, not UTF-8 or not the
            published one; or `vocabulary_size` is given for `"embedded"` or
            together with `vocabulary`.
        FileNotFoundError: A file is not in `data_dir`.
        ImportError: `sentences=True`, and `syntok` is not installed.
        OSError: The download failed, or the cache cannot be written.

    Example:

    >>> corpus = load("embedded")
    >>> corpus.vocabulary.decode(corpus.train.tokens[:5])
    ['john', 'foster', 'was', 'born', 'in']
    """
    if name == "embedded":
        if vocabulary_size is not None:
            raise ValueError(
                "`vocabulary_size` must be None for the corpus 'embedded': its "
                "optimal perplexity is known only for the whole vocabulary. "
                f"Received: vocabulary_size={vocabulary_size}"
            )
        from memlm_keras.data import embedded

        return embedded.load()
    names = [public for public, corpus in _PUBLIC.items() if corpus.files]
    if name not in names:
        raise ValueError(
            f"`name` must be one of {[*names, 'embedded']}. Received: "
            f"name={name!r}. For other text, use `load_text`."
        )
    sources = public_sources(name, data_dir, cache_dir, verify)
    if sentences and name == "wikitext-2":
        if vocabulary is None:
            # Sentences have the same words as lines: build the vocabulary once.
            vocabulary = stored_vocabulary(
                sources["train"],
                cache_folder(cache_dir),
                name,
                size=vocabulary_size,
            )
            vocabulary_size = None
        sources = public_sources(
            name,
            data_dir,
            cache_dir,
            verify=False,
            keep_blank_lines=False,
            by_sentence=True,
        )
        name = f"{name}-sentences"
    return encode_sources(name, sources, cache_dir, vocabulary, vocabulary_size)


def public_sources(name, data_dir=None, cache_dir=None, verify=True, **reading):
    """Returns a dict from split to `TextSource` for a public corpus."""
    public = _PUBLIC[name]
    names = [file for file, *_ in public.files]
    paths = public_files(name, names, data_dir, cache_dir)
    for path, (_, size, digest) in zip(paths, public.files):
        if not verify or digest is None:
            continue
        algorithm = "md5" if len(digest) == 32 else "sha256"
        received_size = path.stat().st_size
        with open(path, "rb") as file:
            received = hashlib.file_digest(file, algorithm).hexdigest()
        if (received_size, received) != (size, digest):
            raise ValueError(
                f"The file {path} is not the expected one, or is damaged. "
                f"Expected {size} bytes with {algorithm} {digest}. Received "
                f"{received_size} bytes with {algorithm} {received}. Download "
                "it again, or use `verify=False` to read it anyway."
            )
    reading = {**public.reading, **reading}
    return {
        split: TextSource(path, **reading) for split, path in zip(SPLITS, paths)
    }


def public_files(name, files, data_dir=None, cache_dir=None):
    """Returns paths of a corpus' files; downloads them without `data_dir`."""
    public = _PUBLIC[name]
    if data_dir is None:
        archive = cache_folder(cache_dir) / "downloads" / name
        if not archive.exists():
            download(public.urls, archive, public.archive_checksum, True)
        folder = archive / public.folder_in_archive
    else:
        data_dir = pathlib.Path(data_dir)
        if not data_dir.is_dir():
            raise FileNotFoundError(
                f"`data_dir` must be a folder with the files {files} of "
                f"{name!r}. Received: data_dir={data_dir}"
            )
        folders = (data_dir / name, data_dir / public.folder_in_archive)
        folder = next(filter(pathlib.Path.is_dir, folders), data_dir)
    for file in files:
        if not (folder / file).is_file():
            raise FileNotFoundError(
                f"There is no file {file} in {folder}. The corpus {name!r} "
                f"consists of {files}."
            )
    return [folder / file for file in files]


# === Downloads ===


def download(urls, destination, checksum, extract=False):
    """Downloads a file to `destination` from the first of `urls` that works.
    Checks the SHA-256 or MD5, and unpacks the file if `extract` is true."""
    with (
        atomic_path(destination) as temporary,
        tempfile.TemporaryDirectory(dir=temporary.parent) as folder,
    ):
        os.replace(_fetch(urls, folder, checksum, extract), temporary)
    return destination


def _fetch(urls, folder, checksum, extract):
    reasons = {}
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_FIRST_WAIT_SECONDS * 2 ** (attempt - 1))
        for url in urls:
            # `get_file` has no timeout of its own, and only warns if an archive
            # cannot be unpacked.
            timeout = socket.getdefaulttimeout()
            socket.setdefaulttimeout(_SILENCE_SECONDS)
            try:
                with warnings.catch_warnings():
                    message = "Could not extract archive"
                    warnings.filterwarnings("error", message)
                    from keras.utils import get_file

                    return get_file(
                        fname="contents",
                        origin=url,
                        file_hash=checksum,
                        extract=extract,
                        force_download=True,
                        cache_dir=folder,
                        cache_subdir="",
                    )
            # `get_file` raises a bare `Exception` for an unreadable address.
            except Exception as error:
                reasons[url] = f"{type(error).__name__}: {error}"
            finally:
                socket.setdefaulttimeout(timeout)
    listed = "\n".join(f"  {url}: {reasons[url]}" for url in urls)
    raise OSError(
        f"Downloading failed after {_TRIES} tries:\n{listed}\n"
        "If you have the files, give their folder as `data_dir` "
        "(`--data_dir=FOLDER` of `memlm`)."
    )
