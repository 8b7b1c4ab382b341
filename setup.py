"""Package metadata and dependencies."""

import pathlib
import re

from setuptools import find_packages
from setuptools import setup

ROOT = pathlib.Path(__file__).parent
VERSION = re.search(
    r'__version__ = "(.+)"', (ROOT / "memlm_keras/version.py").read_text()
).group(1)

SENTENCES = ["syntok>=1.4"]
TENSORBOARD = ["tensorboard"]
LITERT = ["ai-edge-litert>=2"]
SERVING = ["tensorflow-serving-api>=2.21"]
DOCS = ["furo", "myst-parser>=4", "sphinx>=8"]
ONNX = ["onnx>=1.17", "tf2onnx>=1.17"]
ENGINES = ["openvino>=2026", "sherpa-onnx>=1.12"]
HUGGINGFACE = ["torch>=2.6", "transformers>=5.24"]

setup(
    name="memlm_keras",
    version=VERSION,
    description="Memory-augmented recurrent language models in Keras 3",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license_expression="Apache-2.0",
    python_requires=">=3.11",
    entry_points={
        "console_scripts": [
            "memlm = memlm_keras.experiments.command_line:main",
        ],
    },
    packages=find_packages(include=["memlm_keras", "memlm_keras.*"]),
    package_data={
        "memlm_keras.analysis": ["*.html"],
        "memlm_keras.integrations.web": ["page/*"],
        "memlm_keras.presets": ["trained/memlm/*/*"],
    },
    # Too large for a wheel; a clone has it.
    exclude_package_data={
        "memlm_keras.presets": ["trained/memlm/english_large/*"],
    },
    install_requires=[
        "keras>=3.15",
        "tensorflow>=2.21",
        "tensorflow-text>=2.21.1",
        "keras-nlp>=0.32",
        "numpy",
        "absl-py",
        "scipy",
        "sentencepiece>=0.2",
        "matplotlib",
    ],
    extras_require={
        "jax": ["jax>=0.10"],
        "torch": ["torch>=2.6"],
        "sentences": SENTENCES,
        "tensorboard": TENSORBOARD,
        "serving": SERVING,
        "onnx": ONNX,
        "litert": LITERT,
        "engines": ENGINES,
        "huggingface": HUGGINGFACE,
        "docs": DOCS,
        "test": [
            "pytest",
            "pytest-xdist",
            "hypothesis",
            *SENTENCES,
            *TENSORBOARD,
            *SERVING,
            *ONNX,
            *LITERT,
            *HUGGINGFACE,
            *DOCS,
            "onnxruntime",
            "pyyaml",
            "selenium",
        ],
    },
    classifiers=[
        "Development Status :: 5 - Production/Stable",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
