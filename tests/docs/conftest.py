"""Fixtures of tests that run what documents hold."""

import contextlib
import sys
import types

import local_servers
import pytest

from memlm_keras import serving


@pytest.fixture
def run_as_module(monkeypatch):
    """Function that runs source as a module, and returns that."""

    def run(name, source, filename, lines_before=0):
        module = sys.modules.get(name)
        if module is None:
            module = types.ModuleType(name)
            # Classes are looked for in the module that defines them.
            monkeypatch.setitem(sys.modules, name, module)
        # So that a traceback names the file and its line.
        code = compile("\n" * lines_before + source, str(filename), "exec")
        exec(code, module.__dict__)
        return module

    return run


@pytest.fixture
def local_clients(monkeypatch):
    """Function after which clients ask local servers of what is exported.

    It takes the folder of `saved_models`, and returns the addresses asked.
    """
    client = serving.Client
    with contextlib.ExitStack() as stack:

        def serve(folder):
            asked = []

            def local(address, model):
                asked.append(address)
                versions = (folder / "saved_models" / model).iterdir()
                models = local_servers.Models(
                    model, {int(path.name): path for path in versions}
                )
                kind = "rest" if "://" in address else "grpc"
                server = getattr(local_servers, kind)(models)
                return client(stack.enter_context(server), model)

            monkeypatch.setattr(serving, "Client", local)
            return asked

        yield serve
