"""Runs signatures with TensorFlow's C library, as a server would.

    python -I c_client.py saved_model calls.json arrays.npz results.npz

For each call, `calls.json` has two dicts, `inputs` and `outputs`, from tensor
names to names of arrays; if the call must fail, `error` is the name of the
message. The program uses only the library in TensorFlow's wheel, and does not
import TensorFlow.
"""

import ctypes
import importlib.util
import json
import math
import pathlib
import sys

import numpy as np

STRING = 7
TYPES = {1: "float32", 3: "int32", 10: "bool"}
NUMBERS = {np.dtype(name): number for number, name in TYPES.items()}
STRING_SIZE = 24
POINTER = ctypes.c_void_p


class Output(ctypes.Structure):
    _fields_ = [("operation", POINTER), ("index", ctypes.c_int)]


def load_library():
    package = pathlib.Path(importlib.util.find_spec("tensorflow").origin).parent
    for name in ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2"):
        library = ctypes.CDLL(str(package / name), ctypes.RTLD_GLOBAL)
    for name in (
        "TF_NewStatus TF_NewGraph TF_NewSessionOptions TF_TensorData "
        "TF_LoadSessionFromSavedModel TF_GraphOperationByName TF_AllocateTensor"
    ).split():
        getattr(library, name).restype = POINTER
    library.TF_Message.restype = ctypes.c_char_p
    library.TF_Dim.restype = ctypes.c_int64
    library.TF_StringGetSize.restype = ctypes.c_size_t
    library.TF_StringGetDataPointer.restype = POINTER
    return library


class Session:
    """A SavedModel that the C library has loaded."""

    def __init__(self, saved_model):
        self.library = load_library()
        self.status = POINTER(self.library.TF_NewStatus())
        self.graph = POINTER(self.library.TF_NewGraph())
        options = POINTER(self.library.TF_NewSessionOptions())
        tags = (ctypes.c_char_p * 1)(b"serve")
        self.session = POINTER(
            self.library.TF_LoadSessionFromSavedModel(
                options,
                None,
                saved_model.encode(),
                tags,
                1,
                self.graph,
                None,
                self.status,
            )
        )
        self._check()
        self.endpoints = {}

    def run(self, inputs, outputs):
        """Computes the tensors named `outputs` from a dict of input arrays."""
        sources = (Output * len(inputs))(*map(self._endpoint, inputs))
        targets = (Output * len(outputs))(*map(self._endpoint, outputs))
        fed = (POINTER * len(inputs))(*map(self._tensor, inputs.values()))
        fetched = (POINTER * len(outputs))()
        self.library.TF_SessionRun(
            self.session,
            None,
            *(sources, fed, len(inputs)),
            *(targets, fetched, len(outputs)),
            *(None, 0, None),
            self.status,
        )
        for tensor in fed:
            self.library.TF_DeleteTensor(POINTER(tensor))
        self._check()
        return [self._array(POINTER(tensor)) for tensor in fetched]

    def _check(self):
        if self.library.TF_GetCode(self.status):
            raise RuntimeError(self.library.TF_Message(self.status).decode())

    def _endpoint(self, name):
        if name in self.endpoints:
            return self.endpoints[name]
        operation, index = name.split(":")
        found = self.library.TF_GraphOperationByName(
            self.graph, operation.encode()
        )
        assert found, f"no operation {operation}"
        self.endpoints[name] = Output(found, int(index))
        return self.endpoints[name]

    def _tensor(self, array):
        library = self.library
        is_string = array.dtype.kind == "S"
        size = array.size * STRING_SIZE if is_string else array.nbytes
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        tensor = POINTER(
            library.TF_AllocateTensor(
                STRING if is_string else NUMBERS[array.dtype],
                shape,
                array.ndim,
                ctypes.c_size_t(size),
            )
        )
        data = library.TF_TensorData(tensor)
        if not is_string:
            array = np.ascontiguousarray(array)
            ctypes.memmove(POINTER(data), array.ctypes.data, size)
            return tensor.value
        for index, text in enumerate(array.ravel().tolist()):
            place = POINTER(data + index * STRING_SIZE)
            library.TF_StringInit(place)
            library.TF_StringCopy(place, text, ctypes.c_size_t(len(text)))
        return tensor.value

    def _array(self, tensor):
        library = self.library
        axes = range(library.TF_NumDims(tensor))
        shape = [library.TF_Dim(tensor, axis) for axis in axes]
        count = math.prod(shape)
        data = library.TF_TensorData(tensor)
        kind = library.TF_TensorType(tensor)
        if kind == STRING:
            places = [POINTER(data + i * STRING_SIZE) for i in range(count)]
            found = np.array(
                [
                    ctypes.string_at(
                        library.TF_StringGetDataPointer(place),
                        library.TF_StringGetSize(place),
                    )
                    for place in places
                ],
                "S",
            )
        else:
            dtype = np.dtype(TYPES[kind])
            raw = ctypes.string_at(data, count * dtype.itemsize)
            found = np.frombuffer(raw, dtype)
        library.TF_DeleteTensor(tensor)
        return found.reshape(shape)


def main(saved_model, calls_path, arrays_path, results_path):
    session = Session(saved_model)
    arrays = np.load(arrays_path)
    results = {}
    for call in json.loads(pathlib.Path(calls_path).read_text()):
        inputs = {name: arrays[key] for name, key in call["inputs"].items()}
        try:
            found = session.run(inputs, list(call["outputs"]))
        except RuntimeError as error:
            if "error" not in call:
                raise
            results[call["error"]] = str(error)
            continue
        results |= zip(call["outputs"].values(), found, strict=True)
    np.savez(results_path, **results)
    assert "tensorflow" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
