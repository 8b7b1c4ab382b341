"""Prints the commands that train the models on a paper's result page.

    python recipes/paper_steps.py daniluk2017

`Step.logs` is the study in `docs/results/logs` with the runs of a command. The
study `paper` also contains the runs of `recipes/published.py`.
"""

import dataclasses
import shlex
import textwrap

import programs
from memlm_keras.experiments.options import UsageError
from memlm_keras.experiments.options import as_flag
from paper_claims import SETTINGS


@dataclasses.dataclass(frozen=True)
class Step:
    """A command of `memlm` whose results a paper's result page shows."""

    title: str
    command: str
    setting: str | None = None  # `SETTINGS` key, whose options are added.
    logs: str | None = None  # Study in `docs/results/logs`.

    @property
    def arguments(self):
        """List of the arguments of `memlm`, with the options of the setting."""
        words = shlex.split(self.command)
        if self.setting is None:
            return words
        setting = SETTINGS[self.setting]
        values = {"dataset": setting.dataset, **setting.options}
        flags = [as_flag(name, value) for name, value in values.items()]
        given = [word.partition("=")[0] for word in words]
        flags = [flag for flag in flags if flag.partition("=")[0] not in given]
        return [*words[:2], *flags, *words[2:]]


_PTB = "daniluk2017_two_fifths"
_PAIRS = (
    "table weissenborn2016/entailment --dataset=embedded --scale=0.5 "
    "--embedding_dim=64 --epochs=12 --patience=12 --seeds=0,1,2"
)
_DUAL = f"{_PAIRS} --rows=dual_am_gru_shared"
_ADDED = "--seeds=0,1,2 --cache_size=500 --dynamic"

STEPS = {
    "daniluk2017": (
        Step(
            "Two fifths of the sizes",
            "table daniluk2017/models --seeds=0,1 --rows=gated_hornn,lstm,"
            "rm_tm_gated,attention,key_value,key_value_predict_786,ngram_4,"
            "lstm_projected",
            _PTB,
            "small",
        ),
        Step(
            "Other windows of attention",
            "table daniluk2017/windows --seeds=0,1 --rows=attention "
            "--grid window=1,15",
            _PTB,
            "small",
        ),
        Step(
            "The rate",
            "table daniluk2017/models --rows=lstm,attention,"
            "key_value_predict_786,lstm_projected --learning_rate=0.002",
            _PTB,
            "small",
        ),
        Step(
            "The rate, of the LSTM alone",
            "table daniluk2017/models --rows=lstm --learning_rate=0.005",
            _PTB,
            "small",
        ),
    ),
    "tran2016": (
        Step(
            "Three seeds",
            "table tran2016/perplexity --rows=lstm_3,lstm_1,rm_tm_gated "
            "--seeds=0,1,2",
            "tran2016",
            "paper",
        ),
        Step(
            "Kneser-Ney",
            "table tran2016/perplexity --dataset=ptb "
            "--rows=kneser_ney_5,kneser_ney_5_cache",
            logs="kneser_ney",
        ),
        Step(
            "Where it attends",
            "train tran2016/rm_tm_gated --dataset=ptb "
            "--analyses=columns,predictions,pairs",
        ),
        Step(
            "Attention by dependency",
            "train tran2016/rm_tm_gated --dataset=path/to/de_gsd --epochs=8 "
            "--minimum_count=2 --as_published --analyses=dependencies",
        ),
    ),
    "salton2017": (
        Step(
            "10,000 lines, 100 units",
            "table salton2017/ptb --rows=ptb_lstm,ptb_single --seeds=0,1,2",
            "salton2017_little_text",
            "small",
        ),
        Step(
            "The published rate",
            "table salton2017/ptb --rows=ptb_lstm --learning_rate=1",
            "salton2017_little_text",
            "small",
        ),
    ),
    "weissenborn2016": (
        Step(
            "SICK, at the paper's sizes",
            "table weissenborn2016/entailment --seeds=0,1,2,3,4 "
            "--rows=gru_shared,am_gru_shared,dual_am_gru_shared,"
            "lstm_attention",
            "weissenborn2016",
            "paper",
        ),
        Step(
            "Embedded pairs",
            f"{_PAIRS} --rows=gru_shared,am_gru_shared,dual_am_gru_shared "
            "--embedding_range=0.5 --nohalve",
            logs="pairs",
        ),
        Step(
            "Embedded pairs, the rate halved as in the paper",
            f"{_DUAL} --embedding_range=0.5 --halve",
            logs="pairs",
        ),
        Step(
            "Embedded pairs, smaller initial embeddings",
            f"{_DUAL} --embedding_range=0.05 --nohalve",
            logs="pairs",
        ),
        Step(
            "Auto-encoding",
            "table weissenborn2016/autoencoding --dataset=ptb "
            "--vocabulary_size=2000 --segment_length=12 --epochs=5",
            logs="autoencoding",
        ),
    ),
    "kong2019": (
        Step(
            "A thousand lines, until models overfit",
            "table kong2019/ptb --seeds=0,1,2 --rows=vanilla_tied_512,"
            "vanilla_untied_512,dn_linear_512,dn_kneser_ney_512,vs_linear_512,"
            "vs_kneser_ney_512,vs_elementwise_512 --other_words=sample",
            "kong2019_little_text",
            "small",
        ),
        Step(
            "Three readings",
            "table kong2019/ptb --seeds=0,1,2 --rows=vs_kneser_ney_512 "
            "--grid other_words=mode,sample,mean output_bias=True,False",
            "kong2019_little_text",
            "small",
        ),
        Step(
            "By the mean, the mode and 20 samples; cache, dynamic evaluation",
            "table kong2019/ptb --rows=vs_kneser_ney_512 --other_words=sample "
            f"--samples=20 {_ADDED}",
            "kong2019_little_text",
            "together",
        ),
        Step(
            "The same with key-value-predict attention",
            "table kong2019/ptb --rows=vs_kneser_ney_512 --other_words=sample "
            f"--memory=key_value_predict {_ADDED}",
            "kong2019_little_text",
            "together",
        ),
    ),
}


def main(papers):
    if len(papers) != 1 or papers[0] not in STEPS:
        raise UsageError(f"Name one of {', '.join(STEPS)}.")
    for step in STEPS[papers[0]]:
        lines = textwrap.wrap(
            shlex.join(["memlm", *step.arguments]),
            78,
            initial_indent="    ",
            subsequent_indent="        ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        print(step.title, " \\\n".join(lines), sep="\n")


if __name__ == "__main__":
    programs.run(main)
