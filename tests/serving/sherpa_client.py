"""Recognizes one second of noise with sherpa-onnx and a language model.

    python -I sherpa_client.py requests.json results.json

Each request has `streaming`, the `folder` of a transducer, the file of a
language model as `lm`, its `scale` and the number of `paths`. A result has the
`tokens`, and from a streaming recognizer also `scores`, the language model's
score for each token. The program prints the milliseconds per token of the last
result to standard error.
"""

import json
import pathlib
import sys
import time

import numpy as np
import sherpa_onnx

RATE = 16000


def recognise(streaming, folder, lm, scale, paths):
    kind = "Online" if streaming else "Offline"
    recogniser = getattr(sherpa_onnx, f"{kind}Recognizer").from_transducer(
        tokens=f"{folder}/tokens.txt",
        encoder=f"{folder}/encoder.onnx",
        decoder=f"{folder}/decoder.onnx",
        joiner=f"{folder}/joiner.onnx",
        decoding_method="modified_beam_search",
        max_active_paths=paths,
        num_threads=1,
        lm=lm,
        lm_scale=scale,
    )
    stream = recogniser.create_stream()
    noise = np.random.default_rng(0).normal(0, 0.1, RATE).astype("float32")
    stream.accept_waveform(RATE, noise)
    start = time.perf_counter()
    if streaming:
        assert recogniser.is_ready(stream)
        recogniser.decode_stream(stream)
        tokens = recogniser.tokens(stream)
        scores = recogniser.lm_probs(stream)
    else:
        recogniser.decode_stream(stream)
        tokens, scores = stream.result.tokens, None
    taken = 1000 * (time.perf_counter() - start) / len(tokens)
    return {"tokens": tokens, "scores": scores}, taken


def main(requests_path, results_path):
    requests = json.loads(pathlib.Path(requests_path).read_text())
    results = []
    for request in requests:
        result, taken = recognise(**request)
        results.append(result)
    pathlib.Path(results_path).write_text(json.dumps(results))
    print(f"{taken} ms a word", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
