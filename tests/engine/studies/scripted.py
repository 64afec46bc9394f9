"""A server that answers as a test says: chat completions, with token probabilities where the test gives some."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Says = Callable[[str], "str | dict[str, float]"]
"""The last message to a text, or to the probability of each first token."""


@contextmanager
def serving(says: Says, monkeypatch) -> Iterator[list[str]]:
    """Runs the server and points API judges at it; gives the prompts it has seen."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = body["messages"][-1]["content"]
            seen.append(prompt)
            answer = says(prompt)
            choice = {"index": 0, "finish_reason": "stop"}
            if isinstance(answer, str):
                choice["message"] = {"role": "assistant", "content": answer}
            else:
                top = [{"token": token, "logprob": math.log(p)} for token, p in answer.items()]
                best = max(answer, key=answer.get)
                choice["message"] = {"role": "assistant", "content": best}
                if body.get("logprobs"):
                    shown = {"token": best, "logprob": math.log(answer[best]), "top_logprobs": top}
                    choice["logprobs"] = {"content": [shown]}
            usage = {"prompt_tokens": 50, "completion_tokens": 1}
            content = json.dumps({"choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True).start()
    monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    try:
        yield seen
    finally:
        server.shutdown()
        server.server_close()
