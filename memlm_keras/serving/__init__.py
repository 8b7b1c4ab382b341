"""Serving: models as SavedModels for TensorFlow Serving."""

from memlm_keras.serving.export import check_path
from memlm_keras.serving.export import export

__all__ = ["check_path", "export"]
