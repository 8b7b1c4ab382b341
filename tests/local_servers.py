"""Local servers that behave as TensorFlow Serving's documentation says.

The servers answer by REST and gRPC, and run SavedModels in TensorFlow.
"""

import contextlib
import http.server
import json
import re
import threading
from concurrent import futures

import numpy as np
import tensorflow as tf

_MODEL = re.compile(
    r"/v1/models/([^/:]+)(?:/versions/(\d+))?(/metadata|:predict)?"
)


class Models:
    """Versions of one model, loaded from a dict of paths to SavedModels."""

    def __init__(self, name, paths):
        self.name = name
        loaded = {path: tf.saved_model.load(path) for path in paths.values()}
        self.versions = {
            version: loaded[path].signatures for version, path in paths.items()
        }

    def find(self, name, version):
        version = max(self.versions) if version is None else int(version)
        if name != self.name or version not in self.versions:
            raise NotFound(f"Servable not found for request: {name}, {version}")
        return self.versions[version]

    def run(self, name, version, signature, inputs):
        """Returns the outputs of a signature as NumPy arrays."""
        signatures = self.find(name, version)
        if signature not in signatures:
            raise Refused(f"Serving signature key {signature!r} not found.")
        function = signatures[signature]
        specs = function.structured_input_signature[1]
        if set(specs) != set(inputs):
            raise Refused(
                f"input keys are {sorted(inputs)}, expected {sorted(specs)}"
            )
        try:
            tensors = {
                key: tf.constant(value, specs[key].dtype)
                for key, value in inputs.items()
            }
            found = function(**tensors)
        except (ValueError, TypeError, tf.errors.OpError) as error:
            raise Refused(getattr(error, "message", str(error))) from error
        return {key: value.numpy() for key, value in found.items()}


class NotFound(Exception):
    """The server has no such model, or no such version."""


class Refused(Exception):
    """An invalid argument."""


# === REST ===


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self._answer(self._describe)

    def do_POST(self):
        self._answer(self._predict)

    def _answer(self, make):
        try:
            found = _MODEL.fullmatch(self.path)
            if found is None:
                raise Refused(f"Malformed request: {self.command} {self.path}")
            code, body = 200, make(*found.groups())
        except NotFound as error:
            code, body = 404, {"error": str(error)}
        except Refused as error:
            code, body = 400, {"error": str(error)}
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _describe(self, name, version, verb):
        models = self.server.models
        signatures = models.find(name, version)
        if verb is None:
            return {
                "model_version_status": [
                    {
                        "version": str(each),
                        "state": "AVAILABLE",
                        "status": {"error_code": "OK", "error_message": ""},
                    }
                    for each in models.versions
                ]
            }
        return {
            "model_spec": {"name": name, "version": version},
            "metadata": {
                "signature_def": {
                    "signature_def": {
                        key: {"outputs": _outputs(function)}
                        for key, function in signatures.items()
                    }
                }
            },
        }

    def _predict(self, name, version, verb):
        length = int(self.headers["Content-Length"])
        request = json.loads(self.rfile.read(length))
        inputs = request["inputs"]
        signature = request.get("signature_name", "serving_default")
        if not isinstance(inputs, dict):
            function = self.server.models.find(name, version)[signature]
            (key,) = function.structured_input_signature[1]
            inputs = {key: inputs}
        found = self.server.models.run(name, version, signature, inputs)
        found = {key: _plain(value) for key, value in found.items()}
        if len(found) == 1:
            (found,) = found.values()
        return {"outputs": found}


def _outputs(function):
    return {
        key: {
            "dtype": f"DT_{spec.dtype.name.upper()}".replace("FLOAT32", "FLOAT")
        }
        for key, spec in function.structured_outputs.items()
    }


def _plain(array):
    if array.dtype == object:
        decoded = [item.decode() for item in array.ravel()]
        array = np.array(decoded, object).reshape(array.shape)
    return array.tolist()


@contextlib.contextmanager
def rest(models):
    """Serves models by REST; yields the server's address."""
    server = http.server.ThreadingHTTPServer(("localhost", 0), _Handler)
    server.models = models
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


# === gRPC ===


@contextlib.contextmanager
def grpc(models):
    """Serves models by gRPC; yields the server's address."""
    import grpc as library
    from tensorflow_serving.apis import get_model_status_pb2
    from tensorflow_serving.apis import model_service_pb2_grpc
    from tensorflow_serving.apis import predict_pb2
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    @contextlib.contextmanager
    def reporting_errors(context):
        try:
            yield
        except NotFound as error:
            context.abort(library.StatusCode.NOT_FOUND, str(error))
        except Refused as error:
            context.abort(library.StatusCode.INVALID_ARGUMENT, str(error))

    class Models(model_service_pb2_grpc.ModelServiceServicer):
        def GetModelStatus(self, request, context):
            with reporting_errors(context):
                models.find(request.model_spec.name, None)
                answer = get_model_status_pb2.GetModelStatusResponse()
                for version in models.versions:
                    answer.model_version_status.add(version=version, state=30)
                return answer

    class Predictions(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):
            with reporting_errors(context):
                spec = request.model_spec
                inputs = request.inputs.items()
                found = models.run(
                    spec.name,
                    spec.version.value,
                    spec.signature_name,
                    {key: tf.make_ndarray(value) for key, value in inputs},
                )
                answer = predict_pb2.PredictResponse()
                for key, value in found.items():
                    answer.outputs[key].CopyFrom(tf.make_tensor_proto(value))
                return answer

    # The server accepts messages of any size; a client limits the size.
    server = library.server(
        futures.ThreadPoolExecutor(4),
        options=[("grpc.max_receive_message_length", -1)],
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(Models(), server)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        Predictions(), server
    )
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield f"localhost:{port}"
    finally:
        server.stop(None)
