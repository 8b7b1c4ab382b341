"""Starts Triton and reads ids with two clients at once, one step at a time.

    $TRITON_PYTHON -I triton_client.py REPOSITORY ids.npy scores.f32

The environment needs `nvidia-pytriton`, which contains the server, and
`onnxruntime`. The second client reads the ids from the last to the first. The
program writes the log-probabilities of both clients as float32, and then those
of a third client, which runs alone. The third client's milliseconds per word
and the server's peak memory are printed to standard error. The most probable
words after the first id, by the server's names, are printed to standard output.
"""

import contextlib
import importlib.util
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time

import numpy as np
import tritonclient.grpc as triton

PACKAGE = pathlib.Path(importlib.util.find_spec("pytriton").origin).parent
SITE = PACKAGE.parent
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# Timeout for the server's start, end and answers, in seconds.
LONGEST = 60


@contextlib.contextmanager
def served(repository):
    """Starts a server of a repository for this machine only; yields its address
    and process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile("w+") as log,
    ):
        # Triton searches for the process of a Python model beside the backend.
        backend = pathlib.Path(folder, "python")
        server = PACKAGE / "tritonserver"
        shutil.copytree(server / "backends" / "python", backend)
        stub = "triton_python_backend_stub"
        shutil.copy(server / "python_backend_stubs" / VERSION / stub, backend)
        process = subprocess.Popen(
            [
                server / "bin" / "tritonserver",
                f"--model-repository={repository}",
                f"--backend-directory={folder}",
                "--grpc-address=127.0.0.1",
                f"--grpc-port={port}",
                "--allow-http=false",
                "--allow-metrics=false",
            ],
            # Put this environment's `python3` and library first, so that Python
            # models run in this environment.
            env={
                "PATH": os.pathsep.join(
                    [str(pathlib.Path(sys.executable).parent), os.defpath]
                ),
                "LD_LIBRARY_PATH": os.pathsep.join(
                    [
                        sysconfig.get_config_var("LIBDIR"),
                        str(SITE / "nvidia_pytriton.libs"),
                    ]
                ),
            },
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            address = f"127.0.0.1:{port}"
            with triton.InferenceServerClient(address) as client:
                wait(client, process)
            yield address, process
        except Exception:
            log.seek(0)
            print(log.read(), file=sys.stderr)
            raise
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=LONGEST)
            # Also end remaining processes of Python models.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait(client, process):
    for _ in range(10 * LONGEST):
        with contextlib.suppress(triton.InferenceServerException):
            if client.is_server_ready():
                return
        if process.poll() is not None:
            raise RuntimeError("the server has ended")
        time.sleep(0.1)
    raise TimeoutError("the server does not start")


def ask(client, sequence, ids, place, classes=0):
    token_ids = triton.InferInput("token_ids", [1, 1], "INT64")
    token_ids.set_data_from_numpy(ids[None, place : place + 1])
    output = triton.InferRequestedOutput(
        "log_probabilities", class_count=classes
    )
    found = client.infer(
        "lm",
        [token_ids],
        outputs=[output],
        client_timeout=LONGEST,
        sequence_id=sequence,
        sequence_start=place == 0,
        sequence_end=place == len(ids) - 1,
    )
    return found.as_numpy("log_probabilities")[0]


def read(address, sequence, ids):
    with triton.InferenceServerClient(address) as client:
        return [ask(client, sequence, ids, i) for i in range(len(ids))]


def memory(process):
    """Returns the peak memory of a process and its children, in KiB."""
    found = 0
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            facts = dict(
                line.split(":", 1) for line in status.read_text().splitlines()
            )
            if str(process.pid) in (
                facts["Pid"].strip(),
                facts["PPid"].strip(),
            ):
                found += int(facts["VmHWM"].split()[0])
    return found


def main(repository, ids_path, scores_path):
    ids = np.load(ids_path)
    with served(repository) as (address, process):
        # Do not measure the first answer, which takes longer.
        with triton.InferenceServerClient(address) as client:
            for line in ask(client, 3, ids[:1], 0, classes=3):
                print(line.decode())
        start = time.perf_counter()
        alone = read(address, 4, ids)
        taken = 1000 * (time.perf_counter() - start) / len(ids)
        found = {}
        clients = [
            threading.Thread(
                target=lambda sequence, ids: found.update(
                    {sequence: read(address, sequence, ids)}
                ),
                args=one,
            )
            for one in ((1, ids), (2, ids[::-1].copy()))
        ]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        print(f"{memory(process)} KiB of the server", file=sys.stderr)
    scores = np.float32([found[1], found[2], alone])
    pathlib.Path(scores_path).write_bytes(scores.tobytes())
    print(f"{taken} ms a word", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
