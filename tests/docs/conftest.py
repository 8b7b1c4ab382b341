"""Fixtures for tests that run code of the documentation."""

import contextlib
import sys
import types

import local_servers
import pytest

from memlm_keras import serving


@pytest.fixture
def run_as_module(monkeypatch):
    """Returns a function that runs source code as a module and returns the
    module."""

    def run(name, source, filename, lines_before=0):
        module = sys.modules.get(name)
        if module is None:
            module = types.ModuleType(name)
            # Keras finds classes by their module's name.
            monkeypatch.setitem(sys.modules, name, module)
        # With the added lines, tracebacks name the right line of the file.
        code = compile("\n" * lines_before + source, str(filename), "exec")
        exec(code, module.__dict__)
        return module

    return run


@pytest.fixture
def local_clients(monkeypatch):
    """Returns a function that makes clients use local servers of exported
    models.

    The function takes the folder of `saved_models`, and returns a list to which
    the clients' addresses are added.
    """
    client = serving.Client
    with contextlib.ExitStack() as stack:

        def serve(folder):
            addresses = []

            def local(address, model):
                addresses.append(address)
                versions = (folder / "saved_models" / model).iterdir()
                models = local_servers.Models(
                    model, {int(path.name): path for path in versions}
                )
                kind = "rest" if "://" in address else "grpc"
                server = getattr(local_servers, kind)(models)
                return client(stack.enter_context(server), model)

            monkeypatch.setattr(serving, "Client", local)
            return addresses

        yield serve
