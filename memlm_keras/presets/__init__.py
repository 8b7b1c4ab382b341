"""Presets: every row of every paper's tables, as a named configuration."""

from memlm_keras.presets import baselines
from memlm_keras.presets import daniluk2017
from memlm_keras.presets import gal2016
from memlm_keras.presets import grave2017
from memlm_keras.presets import kong2019
from memlm_keras.presets import merity2017
from memlm_keras.presets import press2016
from memlm_keras.presets import salton2017
from memlm_keras.presets import tran2016
from memlm_keras.presets import weissenborn2016
from memlm_keras.presets import zaremba2014
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
]

for _module in (
    daniluk2017,
    tran2016,
    salton2017,
    zaremba2014,
    press2016,
    gal2016,
    grave2017,
    merity2017,
    kong2019,
    weissenborn2016,
    baselines,
):
    register(_module.PAPER)
