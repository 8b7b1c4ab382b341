"""Presets: the rows of the papers' tables as named configurations, and the
names of trained models."""

from memlm_keras.presets import baselines
from memlm_keras.presets import daniluk2017
from memlm_keras.presets import kong2019
from memlm_keras.presets import memlm_rows
from memlm_keras.presets import salton2017
from memlm_keras.presets import tran2016
from memlm_keras.presets import weissenborn2016
from memlm_keras.presets.matching import count_params
from memlm_keras.presets.matching import match_parameters
from memlm_keras.presets.rows import Row
from memlm_keras.presets.table import Measure
from memlm_keras.presets.table import Published
from memlm_keras.presets.table import Table
from memlm_keras.presets.table import TableRow
from memlm_keras.registry import Paper
from memlm_keras.registry import get
from memlm_keras.registry import model_config
from memlm_keras.registry import names
from memlm_keras.registry import papers
from memlm_keras.registry import register
from memlm_keras.registry import tables
from memlm_keras.trained import names as trained_names

__all__ = [
    "Measure",
    "Paper",
    "Published",
    "Row",
    "Table",
    "TableRow",
    "count_params",
    "get",
    "match_parameters",
    "model_config",
    "names",
    "papers",
    "register",
    "tables",
    "trained_names",
]

for _paper in (
    daniluk2017.PAPER,
    tran2016.PAPER,
    salton2017.PAPER,
    *baselines.PAPERS,
    kong2019.PAPER,
    weissenborn2016.PAPER,
    baselines.TABLES,
    memlm_rows.PAPER,
):
    register(_paper)
