"""A program that speaks llama-server's protocol with a cache per slot and no model, written out as an executable."""

from __future__ import annotations

import sys
from pathlib import Path

PROGRAM = r"""#!{python}
import json, math, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODE = {mode!r}
if sys.argv[1:] == ["--version"]:
    print("version: 7 (scripted)", file=sys.stderr)
    sys.exit(0)
if MODE == "no start":
    print("cannot read the file", file=sys.stderr)
    sys.exit(3)
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
SLOTS = int(flags["--parallel"])
held = {{k: [] for k in range(SLOTS)}}


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def say(self, body, status=200):
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def do_GET(self):
        size = 99 if MODE == "other model" else {vocabulary}
        self.say({{"status": "ok"}} if self.path == "/health" else {{"data": [{{"meta": {{"n_vocab": size}}}}]}})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt, slot = asked["prompt"], asked.get("id_slot", 0)
        if MODE == "gone":
            self.server.socket.close()
            self.connection.close()
            import os
            os._exit(1)
        if MODE == "refuses":
            return self.say({{"error": {{"message": "too long"}}}}, 400)
        both = list(zip(held[slot], prompt))
        same = next((k for k, (a, b) in enumerate(both) if a != b), len(both))
        held[slot] = prompt
        computed = len(prompt) - min(same, len(prompt) - 1)
        total = 1.0 if "--lora" in flags else 0.5
        first = total * (prompt[-1] % 7) / 7 + 1e-6
        top = [{{"id": 5, "logprob": math.log(first)}}, {{"id": 8, "logprob": math.log(1e-9)}}]
        if len(prompt) % 2:
            top.append({{"id": 7, "logprob": math.log(total - first + 2e-6)}})
        answer = {{
            "tokens_predicted": asked["n_predict"] - (MODE == "stops" and asked["n_predict"] > 1),
            "tokens_evaluated": len(prompt) - (MODE == "cut"),
            "timings": {{"prompt_n": computed, "cache_n": len(prompt) - computed, "predicted_n": asked["n_predict"]}},
        }}
        if MODE != "no probabilities" and asked.get("n_probs"):
            answer["completion_probabilities"] = [{{"top_logprobs": top}}]
        self.say(answer)


ThreadingHTTPServer(("127.0.0.1", int(flags["--port"])), Handler).serve_forever()
"""


def scripted_llama(folder: Path, vocabulary: int, mode: str = "") -> Path:
    """An executable named like llama.cpp's."""
    path = folder / "llama-server"
    path.write_text(PROGRAM.format(python=sys.executable, mode=mode, vocabulary=vocabulary), encoding="utf-8")
    path.chmod(0o755)
    return path
