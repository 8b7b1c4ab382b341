"""Models made of the rows of papers' tables."""

from memlm_keras import registry


class FromPreset:
    """What a model has that presets describe.

    The subclass names itself in `preset_kind`, as presets do in `"kind"`.
    """

    preset_kind = None

    @classmethod
    def from_preset(cls, preset, /, vocabulary_size, **overrides):
        """Makes the model of one row of a paper's table.

        Args:
            preset: string, one of `memlm_keras.presets.names()`.
            vocabulary_size: integer.
            **overrides: sizes of the preset (`scale`, `units`,
                `embedding_dim`, `window`, `initial_range`, as
                `memlm_keras.presets.get` takes them), or
                arguments of this class that do not contradict the preset.

        Raises:
            ValueError: for an unknown preset, one of another kind of model, or
                an argument that the preset fixes.

        Example:

        >>> lm = memlm_keras.LanguageModel.from_preset(
        ...     "daniluk2017/key_value_predict", vocabulary_size=10_000
        ... )
        >>> classifier = memlm_keras.EntailmentClassifier.from_preset(
        ...     "weissenborn2016/dual_am_gru_shared", vocabulary_size=10_000
        ... )
        """
        config = registry.model_config(preset, cls.preset_kind, **overrides)
        return cls.from_config({"vocabulary_size": vocabulary_size, **config})
