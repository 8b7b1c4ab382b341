"""Exports models to TensorFlow Serving and other engines."""

from memlm_keras.serving.client import Client
from memlm_keras.serving.client import Session
from memlm_keras.serving.export import check_path
from memlm_keras.serving.export import export
from memlm_keras.serving.exported import load

__all__ = ["Client", "Session", "check_path", "export", "load"]
