"""`judgescope bench served`: verdicts a second of an API judge, and its CPU, by requests in flight and by addresses.

The servers are made up: one process of its own answers at every address after a fixed time, so the numbers are those
of the client alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from engine.core.errors import InputError
from engine.core.schema import Protocol, Task
from engine.core.settings import ApiSettings
from engine.inference.served import ApiClient
from engine.judges.api import ApiJudge
from engine.judges.api_spec import parse_api
from engine.judges.base import Request
from engine.judges.cards import Card
from engine.judges.kinds import PointwiseReader

IN_FLIGHT = (1, 8, 64, 256, 512)
ADDRESSES = (1, 2, 8)
LATENCY_S = 0.05
SECONDS = 4.0
"""Calls of a row are so many that an ideal client takes about so long, from `FEWEST` to `--calls`."""
FEWEST, MOST = 40, 6000
CARD = Card(
    name="bench",
    protocol=Protocol.POINTWISE,
    tasks=(Task.DIALOGUE,),
    user="Rate the answer from 1 to 5.\n\n{context}\n\n{response}",
    labels=("1", "2", "3", "4", "5"),
    values=(1, 2, 3, 4, 5),
)


def add_served(kinds: Any) -> None:
    """Add `bench served` to the kinds of `judgescope bench`."""
    served = kinds.add_parser("served", help="an API judge's verdicts a second and CPU, by calls in flight")
    served.add_argument("--in-flight", type=int, nargs="+", default=list(IN_FLIGHT), metavar="N", help="calls at once")
    served.add_argument("--addresses", type=int, nargs="+", default=list(ADDRESSES), metavar="N", help="servers")
    served.add_argument("--latency", type=float, default=LATENCY_S, metavar="S", help="seconds of each answer")
    served.add_argument("--calls", type=int, default=MOST, metavar="N", help="most calls of a row")
    served.add_argument("--json", action="store_true", help="last line is one JSON object")
    served.set_defaults(run=run_served)


def run_served(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, return it.

    Raises:
        InputError: calls in flight outside 1 to 512, fewer than one address or call, or a negative time.
    """
    if not all(1 <= n <= 512 for n in args.in_flight) or min(*args.addresses, args.calls, 1) < 1 or args.latency < 0:
        raise InputError("--in-flight takes 1 to 512, --addresses and --calls at least 1, --latency no less than 0.")
    rows = []
    with stub_servers(max(args.addresses), args.latency) as urls:
        for addresses in args.addresses:
            for in_flight in args.in_flight:
                rows.append(measure(urls[:addresses], in_flight, args.latency, args.calls))
                print(f"{addresses} addresses, {in_flight} in flight ...", file=sys.stderr)
    print(table(rows))
    return {"latency": args.latency, "rows": rows}


def measure(urls: Sequence[str], in_flight: int, latency: float, most: int = MOST) -> dict[str, Any]:
    """Verdicts a second and CPU seconds of one judge that has its first answer already."""
    ideal = in_flight / latency if latency else most
    count = int(min(most, max(FEWEST, SECONDS * ideal)))
    settings = ApiSettings(base_url=" ".join(urls), concurrency=in_flight, max_calls=100 * count)
    client = ApiClient(settings)
    judge = ApiJudge("api:stub", parse_api("api:stub"), client, [CARD], [PointwiseReader()])
    judge.judge([_request(-1)])
    began, used = time.monotonic(), time.process_time()
    verdicts = judge.judge([_request(i) for i in range(count)])
    seconds, cpu = time.monotonic() - began, time.process_time() - used
    client.close()
    if not all(verdict.read for verdict in verdicts):
        raise InputError(f"{sum(not v.read for v in verdicts)} of {count} calls to the local server had no answer.")
    return {
        "addresses": len(urls),
        "in_flight": in_flight,
        "calls": count,
        "per_second": count / seconds,
        "share": count / seconds / ideal if latency else None,
        "cpu_per_1000": 1000 * cpu / count,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """As Markdown."""
    lines = ["| addresses | in flight | calls | verdicts/s | of what the latency allows | CPU s per 1,000 |"]
    lines.append("|---|---|---|---|---|---|")
    for row in rows:
        share = "" if row["share"] is None else f"{row['share']:.2f}"
        lines.append(
            f"| {row['addresses']} | {row['in_flight']} | {row['calls']:,} | {row['per_second']:,.0f} | {share} | "
            f"{row['cpu_per_1000']:.2f} |"
        )
    return "\n".join(lines)


def _request(i: int) -> Request:
    return Request(str(i), str(i), Task.DIALOGUE, "A: What do bees make?", f"They make honey, says number {i}.")


# The servers: as little work as a server can have, so that the client is what is measured.


@contextmanager
def stub_servers(count: int, latency: float) -> Iterator[list[str]]:
    """Base URLs of so many servers in one process, which ends with the block."""
    command = [sys.executable, "-m", "engine.bench.served", str(count), str(latency)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield [f"http://127.0.0.1:{port}/v1" for port in json.loads(process.stdout.readline())]
    finally:
        process.terminate()
        process.wait()


def _completion() -> bytes:
    top = [{"token": str(i), "logprob": math.log(i / 15)} for i in range(1, 6)]
    body = {
        "object": "chat.completion",
        "model": "stub",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "5"},
                "finish_reason": "stop",
                "logprobs": {"content": [{"token": "5", "logprob": math.log(1 / 3), "top_logprobs": top}]},
            }
        ],
        "usage": {"prompt_tokens": 50, "completion_tokens": 1, "total_tokens": 51},
    }
    return _http(json.dumps(body).encode())


def _http(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, latency: float) -> None:
    """Requests of one connection, one after the other."""
    completion, models = _completion(), _http(b'{"object": "list", "data": [{"id": "stub"}]}')
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if length:
                await reader.readexactly(int(length[0].partition(b":")[2]))
                await asyncio.sleep(latency)
            writer.write(completion if length else models)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _serve(count: int, latency: float) -> None:
    answer = partial(_answer, latency=latency)
    servers = [await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024) for _ in range(count)]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2])))
