"""llama.cpp's server as a process of ours: started on a free port, asked in token ids, measured, stopped.

It is no dependency of the project. A program is either the interpreter of an environment that has xllamacpp or the
`llama-server` that llama.cpp builds.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]

from engine.core.errors import InputError, ModelError

SCRIPT = Path(__file__).with_name("xllamacpp_server.py")
INSTALL = (
    "Make an environment for it (python -m venv llama && llama/bin/pip install xllamacpp) and name its interpreter, "
    "--llama-cpp llama/bin/python, or name a llama-server that you have built."
)
START_S = 120.0
ANSWER_S = 600.0


@dataclass(frozen=True)
class Server:
    """A server that answers.

    Attributes:
        url: its address.
        process: what to ask for processor time and memory.
    """

    url: str
    process: psutil.Process

    def cpu_seconds(self) -> float:
        """Processor seconds of all its threads so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def peak_bytes(self) -> int:
        """Most memory it has held: where the system does not say (other than Linux), what it holds now."""
        status = Path(f"/proc/{self.process.pid}/status")
        if status.exists():
            peak = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
            return int(peak.split()[1]) * 1024
        return int(self.process.memory_info().rss)


def is_interpreter(program: Path) -> bool:
    """Whether a program is a Python, so that xllamacpp is meant."""
    return program.name.startswith("python")


def version_of(program: Path) -> str:
    """What the program says it is, in one line.

    Raises:
        InputError: no such program, or it has no llama.cpp.
    """
    code = "import xllamacpp; print('xllamacpp', xllamacpp.__version__)"
    command = [str(program), *(["-I", "-c", code] if is_interpreter(program) else ["--version"])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"llama.cpp cannot be started from {program} ({error}). {INSTALL}") from None
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode:
        raise InputError(f"{program} has no llama.cpp ({said[-1] if said else 'it said nothing'}). {INSTALL}")
    named = [line for line in said if line.startswith(("xllamacpp", "version"))]
    return (named or said or ["unknown"])[0].replace("version:", "llama-server")


@contextmanager
def llama_server(
    program: Path, gguf: Path, *, threads: int, slots: int, context: int, adapter: Path | None = None
) -> Iterator[Server]:
    """Start a server for the body of a `with`.

    Args:
        program: see the module.
        gguf: the weights.
        threads: for prompts and for writing.
        slots: prompts worked on at once.
        context: tokens of each slot.
        adapter: a LoRA as GGUF, laid over the weights.

    Raises:
        ModelError: it ended before it answered (with its last line), or does not answer in time.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = _command(program, gguf, port, threads, slots, context, adapter)
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            _until_ready(url, started, log)
            yield Server(url, psutil.Process(started.pid))
        finally:
            started.terminate()
            started.communicate()


def _command(
    program: Path, gguf: Path, port: int, threads: int, slots: int, context: int, adapter: Path | None
) -> list[str]:
    numbers = [str(n) for n in (port, threads, slots, context)]
    if is_interpreter(program):
        return [str(program), "-I", str(SCRIPT), str(gguf), *numbers, *([str(adapter)] if adapter else [])]
    return [
        str(program), "--model", str(gguf), "--host", "127.0.0.1", "--port", numbers[0], "--threads", numbers[1],
        "--threads-batch", numbers[1], "--parallel", numbers[2], "--ctx-size", str(slots * context),
        *(["--lora", str(adapter)] if adapter else []),
    ]  # fmt: skip


def _until_ready(url: str, started: subprocess.Popen[bytes], log: Any) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if started.poll() is not None:
            log.seek(0)
            said = log.read().strip().splitlines() or ["it said nothing"]
            raise ModelError(f"llama.cpp's server ended with code {started.returncode}: {said[-1]}. {INSTALL}")
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise ModelError(f"llama.cpp's server does not answer within {START_S:.0f} s. Try again on a less busy machine.")


def require_vocabulary(url: str, size: int) -> None:
    """Make sure that the model with this vocabulary answers at this address, and not another server.

    Raises:
        ModelError: it is another model.
    """
    with httpx.Client(timeout=ANSWER_S) as client:
        answer = _answered(lambda: client.get(f"{url}/v1/models"), url)
    found = ((answer.get("data") or [{}])[0].get("meta") or {}).get("n_vocab")
    if found != size:
        raise ModelError(
            f"The server at {url} has a vocabulary of {found}, the judge one of {size}: another model answers there. "
            "Run the benchmark again."
        )


def complete(client: httpx.Client, url: str, prompt: Sequence[int], **fields: Any) -> dict[str, Any]:
    """One answer of `/completion` to a prompt in token ids, with the prompt kept in the cache.

    Raises:
        ModelError: the server is gone, refuses, or has read another number of tokens.
    """
    body = {"prompt": list(map(int, prompt)), "cache_prompt": True, "temperature": 0, **fields}
    answer = _answered(lambda: client.post(f"{url}/completion", json=body), url)
    if answer.get("tokens_evaluated") != len(prompt):
        raise ModelError(
            f"llama.cpp's server read {answer.get('tokens_evaluated')} of a prompt's {len(prompt)} tokens, so its "
            "times cannot be compared. Use another version of it."
        )
    return answer


def _answered(send: Any, url: str) -> dict[str, Any]:
    try:
        reply = send()
        body = reply.json() if reply.status_code == 200 else None
    except httpx.TransportError as error:
        raise ModelError(f"llama.cpp's server at {url} is gone ({error or type(error).__name__}).") from None
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise ModelError(f"llama.cpp's server at {url} answered {reply.status_code}: {reply.text[:200]}")
    return body
