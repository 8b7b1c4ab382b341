"""Requests that TensorFlow Serving sends itself before it serves a model.

Runs on the TensorFlow backend of Keras only.
"""

import tensorflow as tf

FILE = "tf_serving_warmup_requests"


def write(requests, folder):
    """Writes warm-up requests, if `tensorflow-serving-api` is installed.

    The first answer of a signature takes seconds, later ones milliseconds. A
    server that finds this file in `assets.extra` has been through the first
    ones when it takes over.

    Args:
        requests: dict, by the name of the signature, of dicts of tensors.
        folder: `pathlib.Path` of `assets.extra`.

    Returns:
        Whether they are written.
    """
    try:
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError:
        return False
    with tf.io.TFRecordWriter(str(folder / FILE)) as file:
        for name, request in requests.items():
            log = prediction_log_pb2.PredictionLog()
            predict = log.predict_log.request
            predict.model_spec.signature_name = name
            for key, value in request.items():
                predict.inputs[key].CopyFrom(tf.make_tensor_proto(value))
            file.write(log.SerializeToString())
    return True
