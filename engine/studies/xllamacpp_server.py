"""llama.cpp's own server through the PyPI package xllamacpp, run by the interpreter of an environment that has it.

`python -I xllamacpp_server.py GGUF PORT THREADS SLOTS CONTEXT [ADAPTER]` answers until its input closes. It imports
nothing of the project, which that environment need not have.
"""

import sys

import xllamacpp  # type: ignore[import-not-found]  # installed for the benchmark only


def serve(gguf: str, port: int, threads: int, slots: int, context: int, adapter: str = "") -> None:
    """Run until the input closes; all other settings are the server's own."""
    params = xllamacpp.CommonParams()
    params.model.path, params.port = gguf, port
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.n_parallel, params.n_ctx = slots, slots * context
    if adapter:
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(adapter, 1.0)]
    server = xllamacpp.Server(params)
    print("listening", server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[2:6]]
    serve(sys.argv[1], numbers[0], numbers[1], numbers[2], numbers[3], *sys.argv[6:])
