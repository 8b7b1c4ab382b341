"""The corpora and sizes at which claims of the five papers are tested."""

from memlm_keras.experiments.claims import Setting

SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(
            "kong2019_little_text",
            "Penn Treebank, the first 1,000 lines of its training text, two "
            "layers of 100 units, until the best epoch is past",
            "--dataset=ptb --training_lines=1000 --units=100 --rate=0.2 "
            "--dropout=0.1 --batch_size=10 --segment_length=20 --epochs=40 "
            "--patience=6 --other_words=sample --output_bias",
            "--dataset=ptb --training_lines=1000 --other_words=sample "
            "--output_bias",
        ),
        Setting(
            "kong2019",
            "Penn Treebank, two layers of 200 units; an epoch of one model "
            "takes a CPU core seven minutes",
            "--dataset=ptb --units=200 --rate=0.1 --epochs=40 --patience=3 "
            "--other_words=sample --output_bias",
            "--dataset=ptb --rate=0.2 --other_words=sample --output_bias",
        ),
        Setting(
            "daniluk2017_penn_treebank",
            "Penn Treebank, the paper's sizes times 0.4, until dev turns, at "
            "a learning rate of 0.003",
            "--dataset=ptb --scale=0.4 --initial_range=0.158 "
            "--learning_rate=0.003 --epochs=12 --patience=1",
            "--dataset=ptb --epochs=40 --patience=2",
            seeds=2,
        ),
        Setting(
            "daniluk2017",
            "WikiText-2 by articles, V = 33,278, the paper's sizes times 0.4; "
            "an epoch of one model takes a CPU core half an hour",
            "--dataset=wikitext-2 --documents --scale=0.4 "
            "--initial_range=0.158 --epochs=8 --patience=1",
            "--dataset=wikitext-2 --documents --epochs=30 --patience=2",
            seeds=2,
        ),
        Setting(
            "weissenborn2016",
            "SICK, 4,500 training pairs; embeddings begin at the size of "
            "GloVe's",
            "--dataset=sick",
            "--dataset=snli",
            seeds=5,
        ),
        Setting(
            "salton2017_little_text",
            "Penn Treebank, the first 10,000 lines of its training text, two "
            "layers of 100 units, at a learning rate of 0.5",
            "--dataset=ptb --training_lines=10000 --units=100 --dropout=0.1 "
            "--initial_range=0.128 --learning_rate=0.5 --halve_after=8 "
            "--epochs=20 --patience=2",
            "--dataset=ptb --training_lines=10000",
        ),
        Setting(
            "salton2017",
            "Penn Treebank, two layers of 200 units; an epoch of one model "
            "takes a CPU core about seven minutes",
            "--dataset=ptb --units=200 --dropout=0.3 --epochs=16 --patience=3",
            "--dataset=ptb",
        ),
        Setting(
            "tran2016",
            "Penn Treebank, d = 128 as published, until three epochs, each at "
            "half the rate of the one before, have not been better",
            "--dataset=ptb --patience=3",
            "--dataset=ptb",
        ),
    )
}
