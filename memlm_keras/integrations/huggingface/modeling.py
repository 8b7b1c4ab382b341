"""Language models as `transformers` models, on the PyTorch backend.

Importing this module registers its classes, so that `AutoModelForCausalLM` and
`AutoTokenizer` load a folder of `memlm export RUN --format=hf`."""

import itertools
import json
import pathlib

import keras

from memlm_keras.arguments import require_streaming
from memlm_keras.arguments import require_vocabulary
from memlm_keras.arguments import serialize
from memlm_keras.data.vocabulary import Vocabulary
from memlm_keras.integrations.huggingface import MODULE
from memlm_keras.models import Ensemble
from memlm_keras.models import LanguageModel

try:
    import torch
    import transformers
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "A `transformers` model needs transformers and PyTorch. "
        'Install them: pip install "memlm_keras[huggingface]"',
        name=error.name,
    ) from error

_IGNORED = -100  # Label that the loss in transformers ignores.
# The module in `_MODULE` sets the backend before `import_module` imports Keras.
# A line such as `import memlm_keras` would import Keras too early: transformers
# first imports all packages in `import` lines, to check that they exist.
_MODULE = '''"""Loads this folder if `trust_remote_code=True`. It is not
needed after `import memlm_keras.integrations.huggingface.modeling`."""

import importlib
import os

os.environ.setdefault("KERAS_BACKEND", "torch")
_folder = "memlm_keras.integrations.huggingface"
_classes = importlib.import_module(f"{_folder}.modeling")
MemlmConfig = _classes.MemlmConfig
MemlmForCausalLM = _classes.MemlmForCausalLM
MemlmTokenizer = _classes.MemlmTokenizer
'''


class MemlmConfig(transformers.PreTrainedConfig):
    """Config of `MemlmForCausalLM`. `keras_config` is the config of the Keras
    model as a JSON string."""

    model_type = "memlm_keras"

    # A string, because transformers changes dicts that have a "dtype".
    keras_config: str = ""
    vocab_size: int = 0
    bos_token_id: int | None = None
    eos_token_id: int | None = None


class MemlmCache(transformers.Cache):
    """Keeps the state of a model between calls of `forward`.

    Attributes:
        state: dict of tensors `(batch, ...)` from `LanguageModel.step`, or
            `None` before the first call.
        seen: integer, number of time steps that were read since `reset`,
            including padding.
    """

    def __init__(self):
        super().__init__(layers=[])
        self.reset()

    # `[False]` makes `generate` pass only tokens that the cache has not read.
    is_linear = [False]

    def get_seq_length(self, layer_idx=0):
        return self.seen

    def reset(self):
        self.state = None
        self.seen = 0

    def reorder_cache(self, beam_idx):
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices):
        self.state = {
            name: value[indices.to(value.device)]
            for name, value in self.state.items()
        }

    def batch_repeat_interleave(self, repeats):
        self.state = {
            name: value.repeat_interleave(repeats, dim=0)
            for name, value in self.state.items()
        }


class MemlmForCausalLM(
    transformers.PreTrainedModel, transformers.GenerationMixin
):
    """A language model of this package as a `transformers` model.

    `wrap` creates it. The wrapper and the wrapped model share parameters and
    dtypes, so training one of them trains both.

    Args:
        config: `MemlmConfig`.
        lm: the model to wrap; `None` creates one from the config, with random
            weights.

    Attributes:
        lm: `memlm_keras.LanguageModel` or `Ensemble`.

    Call arguments:
        input_ids: int tensor `(batch, time)`. The model starts from the state
            in the cache or from an empty context. Id `vocab_size` is padding.
        attention_mask: `None`, or a tensor `(batch, time)` that is zero at
            padding; it may also begin with the time steps of earlier calls.
            Padding can be anywhere in a row and does not change the state.
        cache: `MemlmCache` or `None`. `forward` updates the cache in place.
            `past_key_values` is another name for `cache`.
        labels: int tensor `(batch, time)`, such as `input_ids`. The loss is the
            mean in nats over labels, except the first label of each row, labels
            of -100, and labels at or right after padding.
        use_cache: bool, whether to return a cache.

    Returns:
        `CausalLMOutputWithPast` with `logits` float32 `(batch, time,
        vocab_size)`, zero at padding, `loss` and `cache`.

    Raises:
        ValueError: for an id above `vocab_size` or below 0, unless
            `attention_mask` marks it as padding.
    """

    config_class = MemlmConfig
    # Assisted generation undoes steps, which is impossible with a state.
    _is_stateful = True

    def __init__(self, config, lm=None):
        if keras.backend.backend() != "torch":
            raise ValueError(
                "A `transformers` model needs Keras' PyTorch backend. "
                f"Received: the {keras.backend.backend()} backend. Set "
                "KERAS_BACKEND=torch before Keras is imported"
            )
        super().__init__(config)
        if lm is None:
            # `from_pretrained` runs this method on the meta device.
            with torch.device("cpu"), keras.device("cpu"):
                lm = keras.saving.deserialize_keras_object(
                    json.loads(config.keras_config)
                )
        # `lm` is not a submodule, so that each weight has only one name.
        vars(self)["lm"] = lm
        self._share_weights()
        self.post_init()

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        """Loads a folder that `save_pretrained` or `serving.export` wrote.
        Arguments: see `transformers.PreTrainedModel.from_pretrained`.

        Raises:
            ValueError: if weights of the model are missing from the files.
        """
        asked = kwargs.pop("output_loading_info", False)
        model, report = super().from_pretrained(
            *args, output_loading_info=True, **kwargs
        )
        if missing := sorted(report["missing_keys"]):
            raise ValueError(
                "The folder must hold all weights of the model. Received: a "
                f"folder without {', '.join(missing)}. Export the model again"
            )
        device = model.device
        # Copies the loaded parameters to the Keras model's own variables.
        for variable, value in zip(model._variables(), model.weights.values()):
            variable.assign(value)
        model._share_weights()
        model.to(device)
        return (model, report) if asked else model

    def _share_weights(self):
        """Registers the variables of `lm` as parameters of this module."""
        self.weights = torch.nn.ParameterDict(
            {
                f"{place:03d}/{variable.name}": variable.value
                for place, variable in enumerate(self._variables())
            }
        )

    def _variables(self):
        """Returns the variables of `lm` without a state carried in training."""
        return [v for v in self.lm.weights if "carried_" not in v.path]

    def _init_weights(self, module):
        """Does nothing, because Keras initializes the weights."""

    @classmethod
    def _supports_default_dynamic_cache(cls):
        return False

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        cache=None,
        labels=None,
        use_cache=None,
        return_dict=None,
        past_key_values=None,
        **kwargs,
    ):
        batch, time = input_ids.shape
        size = self.config.vocab_size
        read = input_ids != size
        if attention_mask is not None:
            read &= attention_mask[:, -time:].to(read.device).bool()
        outside = read & ((input_ids < 0) | (input_ids > size))
        if outside.any():
            raise ValueError(
                f"`input_ids` must be from 0 to {size - 1}, or {size} for "
                f"padding. Received: {input_ids[outside][0]}"
            )
        if cache is None:
            cache = past_key_values
        state = None if cache is None else cache.state
        logits, state = self._read(input_ids, read, state)
        if cache is None and use_cache is not False:
            cache = MemlmCache()
        if cache is not None:
            cache.state = state
            cache.seen += time
        loss = None
        if labels is not None:
            # A label at padding, or right after it, is ignored.
            predicted = read & read.roll(1, dims=1)
            loss = self.loss_function(
                logits=logits,
                labels=labels.masked_fill(~predicted, _IGNORED),
                vocab_size=self.config.vocab_size,
                **kwargs,
            )
        output = transformers.modeling_outputs.CausalLMOutputWithPast(
            loss=loss, logits=logits, cache=cache
        )
        return output.to_tuple() if return_dict is False else output

    def _read(self, input_ids, read, state):
        """Runs the model on the tokens at which `read` is true. Returns logits,
        which are zero where `read` is false, and the new state."""
        step = self.lm.backbone.step
        with keras.device(str(self.device)):
            if state is None:
                state = self.lm.backbone.initial_state(len(input_ids))
            if read.all():
                logits, state = step(input_ids.int(), state, self.training)
                return logits.float(), state
            # In each row: the indices of tokens first, then those of padding.
            columns = torch.argsort(~read, dim=1, stable=True)
            lengths = read.sum(dim=1)
            logits = torch.zeros(
                (*input_ids.shape, self.config.vocab_size), device=self.device
            )
            edges = sorted({0, *lengths.tolist()})
            for begin, end in itertools.pairwise(edges):
                rows = torch.nonzero(lengths >= end)[:, 0]
                place = rows[:, None], columns[rows, begin:end]
                part, after = step(
                    input_ids[place].int(),
                    {name: value[rows] for name, value in state.items()},
                    self.training,
                )
                logits[place] = part.float()
                state = {
                    name: value.index_copy(0, rows, after[name])
                    for name, value in state.items()
                }
        return logits, state


class MemlmTokenizer(transformers.PreTrainedTokenizer):
    """A vocabulary of this package as a tokenizer of `transformers`.

    The ids are the same as in the vocabulary. A text begins with an
    end-of-sentence token, which is added if missing, so that the model predicts
    the first word. The id of padding is the size of the vocabulary.

    Args:
        vocabulary_file: path of a file that `Vocabulary.save` wrote.
        vocabulary: `memlm_keras.data.Vocabulary` to use without a file.
        **kwargs: other arguments of a `transformers.PreTrainedTokenizer`.
    """

    vocab_files_names = {"vocabulary_file": "vocabulary.json"}
    model_input_names = ["input_ids", "attention_mask"]

    def __init__(self, vocabulary_file=None, vocabulary=None, **kwargs):
        if vocabulary is None:
            vocabulary = Vocabulary.from_file(vocabulary_file)
        self.vocabulary = vocabulary
        super().__init__(
            **{
                "bos_token": vocabulary.end_of_sentence,
                "eos_token": vocabulary.end_of_sentence,
                "unk_token": vocabulary.unknown,
                "pad_token": "<pad>",
                "special_tokens_pattern": "bos",
                "clean_up_tokenization_spaces": False,
                **kwargs,
            }
        )

    @property
    def vocab_size(self):
        return len(self.vocabulary)

    def get_vocab(self):
        ids = {token: id for id, token in enumerate(self.vocabulary.tokens)}
        return {**ids, **self.added_tokens_encoder}

    def _tokenize(self, text, **kwargs):
        return self.vocabulary.tokenizer.tokenize(text)

    def _convert_token_to_id(self, token):
        return self.vocabulary[token]

    def _convert_id_to_token(self, index):
        return self.vocabulary.tokens[index]

    def convert_tokens_to_string(self, tokens):
        return self.vocabulary.detokenize(tokens)

    def _decode(self, token_ids, *args, **kwargs):
        """Decodes ids. A text that does not begin with `bos_token_id` continues
        another text, so a first word gets a space before it."""
        text = super()._decode(token_ids, *args, **kwargs)
        ids = [token_ids] if isinstance(token_ids, int) else token_ids
        ids = [int(id) for id in ids if id != self.pad_token_id]
        if not ids or ids[0] == self.bos_token_id:
            return text
        spaced = getattr(self.vocabulary, "unit", None) != "characters"
        token = self.vocabulary.tokens[ids[0]]
        begins = spaced and self.vocabulary.begins_word(token)
        return f" {text}" if begins else text

    def build_inputs_with_special_tokens(self, token_ids_0, token_ids_1=None):
        ids = [*token_ids_0, *(token_ids_1 or [])]
        begins = ids[:1] == [self.bos_token_id]
        return ids if begins else [self.bos_token_id, *ids]

    def save_vocabulary(self, save_directory, filename_prefix=None):
        name = self.vocab_files_names["vocabulary_file"]
        prefix = "" if filename_prefix is None else f"{filename_prefix}-"
        path = pathlib.Path(save_directory, prefix + name)
        self.vocabulary.save(path)
        return (str(path),)


def wrap(lm, vocabulary=None):
    """Makes a `transformers` model and tokenizer from a language model.

    Args:
        lm: causal `memlm_keras.LanguageModel` or `memlm_keras.Ensemble`. A
            smoothed model is replaced by its `with_fixed_matrices()`.
        vocabulary: `memlm_keras.data.Vocabulary`; `None` for the model's own.

    Returns:
        A pair of a `MemlmForCausalLM` in evaluation mode and a
        `MemlmTokenizer`.

    Raises:
        ValueError: if the model is of another class or not causal, the
            vocabulary is missing or has another size, or the backend is not
            PyTorch.

    Example:

    >>> model, tokenizer = wrap(lm)
    >>> batch = tokenizer(["the man", "was"], padding=True, return_tensors="pt")
    >>> model(**batch, labels=batch.input_ids).loss
    """
    if not isinstance(lm, LanguageModel | Ensemble):
        raise ValueError(
            "`lm` must be a `memlm_keras.LanguageModel` or an `Ensemble` of "
            f"them. Received: {type(lm).__name__}. `memlm pairs` and `memlm "
            "surprisal` score n-gram models and a `DynamicEvaluator`"
        )
    require_streaming("`wrap`", lm)
    vocabulary = require_vocabulary(lm, vocabulary)
    tokenizer = MemlmTokenizer(vocabulary=vocabulary)
    lm = lm.with_fixed_matrices()
    keras_config = serialize(lm)
    # The tokenizer saves the vocabulary, so the model's config omits it.
    for part in (keras_config, *keras_config["config"].get("models", ())):
        part["config"].pop("vocabulary", None)
    config = MemlmConfig(
        keras_config=json.dumps(keras_config),
        vocab_size=len(vocabulary),
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = MemlmForCausalLM(config, lm).eval()
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model, tokenizer


def write(model, vocabulary, options, path):
    """Writes a folder for `from_pretrained`, as `serving.export` describes."""
    model, tokenizer = wrap(model, vocabulary)
    module = pathlib.Path(MODULE).stem
    tokenizer.init_kwargs["auto_map"] = {
        "AutoTokenizer": [f"{module}.MemlmTokenizer", None]
    }
    model.config.auto_map = {
        "AutoConfig": f"{module}.MemlmConfig",
        "AutoModelForCausalLM": f"{module}.MemlmForCausalLM",
    }
    path.mkdir()
    tokenizer.save_pretrained(path)
    model.save_pretrained(path)
    (path / MODULE).write_text(_MODULE, encoding="utf-8")


transformers.AutoConfig.register(MemlmConfig.model_type, MemlmConfig)
transformers.AutoModelForCausalLM.register(MemlmConfig, MemlmForCausalLM)
transformers.AutoTokenizer.register(MemlmConfig, MemlmTokenizer)
