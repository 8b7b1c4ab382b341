"""Connections to TensorFlow Serving, by REST and by gRPC."""

import json
import urllib.error
import urllib.request

import numpy as np

# Of `ModelVersionStatus.State`, by name and by number.
_READY, _READY_NUMBER = "AVAILABLE", 30
_DTYPES = {
    "DT_BOOL": "bool",
    "DT_FLOAT": "float32",
    "DT_INT32": "int32",
    "DT_INT64": "int64",
    "DT_STRING": "object",
}


class RestConnection:
    """Requests by REST, in columns.

    Args:
        address: string, such as `"http://localhost:8501"`.
        model: string, name of the model.
        timeout: float, in seconds.
    """

    def __init__(self, address, model, timeout):
        self._address = f"{address.rstrip('/')}/v1/models/{model}"
        self._timeout = timeout
        self._outputs = {}

    def versions(self):
        """Set of the versions that are ready."""
        status = self._ask("")["model_version_status"]
        return {int(v["version"]) for v in status if v["state"] == _READY}

    def predict(self, version, signature, inputs):
        """Outputs of a signature, as NumPy arrays by name."""
        outputs = self._signature(version, signature)
        found = self._ask(
            f"/versions/{version}:predict",
            {
                "signature_name": signature,
                "inputs": {k: v.tolist() for k, v in inputs.items()},
            },
        )["outputs"]
        if len(outputs) == 1:
            # The server leaves out the name of a single output.
            found = dict.fromkeys(outputs, found)
        return {
            name: np.array(found[name], dtype)
            for name, dtype in outputs.items()
        }

    def _signature(self, version, signature):
        """Dtypes of the outputs of a signature, by their names."""
        if version not in self._outputs:
            found = self._ask(f"/versions/{version}/metadata")
            found = found["metadata"]["signature_def"]["signature_def"]
            self._outputs[version] = {
                name: {
                    output: _DTYPES[description["dtype"]]
                    for output, description in definition["outputs"].items()
                }
                for name, definition in found.items()
                if not name.startswith("__")
            }
        return _known(self._outputs[version], signature)

    def _ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._address + path, data)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as file:
                return json.load(file)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            try:
                text = json.loads(text)["error"]
            except (ValueError, KeyError, TypeError):
                text = text or error.reason
            kind = {404: LookupError, 503: ConnectionError, 504: TimeoutError}
            raise kind.get(error.code, ValueError)(text) from None
        except TimeoutError:
            raise _late(self._address, self._timeout) from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise _late(self._address, self._timeout) from None
            raise _not_there(self._address, error.reason) from None


class GrpcConnection:
    """Requests by gRPC, of any size.

    Args:
        address: string, such as `"localhost:8500"`.
        model: string, name of the model.
        timeout: float, in seconds.
    """

    def __init__(self, address, model, timeout):
        try:
            import grpc
            from tensorflow_serving.apis import model_service_pb2_grpc
            from tensorflow_serving.apis import prediction_service_pb2_grpc
        except ImportError as error:
            raise ImportError(
                "gRPC needs `pip install tensorflow-serving-api`. Without it, "
                'give the address of the REST port: "http://host:8501". '
                f"Received: address={address!r}"
            ) from error
        self._address = address
        self._model = model
        self._timeout = timeout
        # A state may be larger than the 4 MiB that clients take by default.
        limits = ("max_send_message_length", "max_receive_message_length")
        channel = grpc.insecure_channel(
            address, options=[(f"grpc.{limit}", -1) for limit in limits]
        )
        self._models = model_service_pb2_grpc.ModelServiceStub(channel)
        self._predictions = prediction_service_pb2_grpc.PredictionServiceStub(
            channel
        )

    def versions(self):
        """Set of the versions that are ready."""
        from tensorflow_serving.apis import get_model_status_pb2

        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = self._model
        found = self._ask(self._models.GetModelStatus, request)
        return {
            v.version
            for v in found.model_version_status
            if v.state == _READY_NUMBER
        }

    def predict(self, version, signature, inputs):
        """Outputs of a signature, as NumPy arrays by name."""
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest()
        request.model_spec.name = self._model
        request.model_spec.version.value = version
        request.model_spec.signature_name = signature
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        answer = self._ask(self._predictions.Predict, request)
        return {
            name: _as_text(tf.make_ndarray(value))
            for name, value in answer.outputs.items()
        }

    def _ask(self, method, request):
        import grpc

        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            raise _late(self._address, self._timeout)
        if code == grpc.StatusCode.UNAVAILABLE:
            raise _not_there(self._address, details)
        if code == grpc.StatusCode.NOT_FOUND:
            raise LookupError(details)
        raise ValueError(details)


def _as_text(array):
    if array.dtype != object:
        return array
    flat = [item.decode(errors="replace") for item in array.ravel()]
    text = np.empty(array.shape, object)
    text.ravel()[:] = flat
    return text


def _known(signatures, name):
    if name not in signatures:
        raise LookupError(
            f"The model has no signature {name!r}. It has: "
            f"{', '.join(sorted(signatures))}."
        )
    return signatures[name]


def _late(address, timeout):
    return TimeoutError(
        f"No answer from {address} within {timeout:g} seconds. Give the client "
        "a longer `timeout`, or ask for less."
    )


def _not_there(address, reason):
    return ConnectionError(
        f"No server answers at {address}: {reason}. Is one started, and is "
        "this its port: 8501 of REST, 8500 of gRPC?"
    )
