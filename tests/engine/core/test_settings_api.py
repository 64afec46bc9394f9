"""Where server, key, limits and prices come from, and that the key goes nowhere else."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from engine.cli.doctor import checkup
from engine.cli.main import main
from engine.core.errors import InputError
from engine.core.settings import ApiSettings, api_key, api_settings, get_settings, key_state
from engine.jobs.worker import Worker
from engine.runs.folder import open_run
from engine.runs.library import facts
from tests.engine.judges.api_server import completion, fault, serving

KEY = "sk-verysecret-0123456789"
TOP = {"4": 0.6, "5": 0.4}


@pytest.fixture(autouse=True)
def no_outside(monkeypatch):
    """What the machine that runs the tests happens to have set."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "JUDGESCOPE_API_KEY", "JUDGESCOPE_API_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def secrets(settings, text: str) -> Path:
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    path = settings.data_dir / "secrets.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def test_the_environment_comes_before_the_secrets_file_and_that_before_the_defaults(settings, monkeypatch):
    secrets(settings, f'[api]\nbase_url = "http://10.0.0.1/v1/"\nkey = "{KEY}"\nconcurrency = 7\nretries = 1\n')
    monkeypatch.setenv("JUDGESCOPE_API_CONCURRENCY", "3")
    found = api_settings(settings)
    assert (found.base_url, found.concurrency, found.retries, found.max_calls) == ("http://10.0.0.1/v1", 3, 1, 5000)
    assert (found.host, found.loopback) == ("10.0.0.1", False)
    assert api_key(settings) == KEY
    assert key_state(settings) == (True, "secrets file secrets.toml", "")
    monkeypatch.setenv("JUDGESCOPE_API_KEY", "other")
    assert api_key(settings) == "other"


@pytest.mark.parametrize("given", ["http://a:1/v1, http://b:2/v1/", "http://a:1/v1 http://b:2/v1 http://a:1/v1"])
def test_several_addresses_are_one_server_named_after_the_first(settings, monkeypatch, given):
    monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", given)
    found = api_settings(settings)
    assert found.addresses == ("http://a:1/v1", "http://b:2/v1")
    assert (found.host, found.hosts) == ("a:1", "a:1 and 1 more")
    monkeypatch.delenv("JUDGESCOPE_API_BASE_URL")
    secrets(settings, '[api]\nbase_url = ["http://a:1/v1", "http://b:2/v1"]\n')
    assert api_settings(settings).addresses == found.addresses
    monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", "http://a:1/v1 b:2/v1")
    with pytest.raises(InputError, match="no base URL"):
        api_settings(settings)


def test_a_run_over_two_addresses_counts_the_answers_of_each_and_doctor_lists_them_when_asked(
    settings, monkeypatch, capsys
):
    with serving(lambda n, _: completion("4", TOP)) as a, serving(lambda n, _: completion("4", TOP)) as b:
        monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", f"{a.url},{b.url}")
        assert main(["score", "demo-dialogue", "--judge", "api:m", "--limit", "4", "--run-id", "two", "--json"]) == 0
        manifest = open_run(settings.runs, "two").manifest()
        assert manifest["judge"]["api"]["answered"] == {a.host: len(a.seen), b.host: len(b.seen)}
        assert facts(manifest)["Answers by address"] == f"{a.host} {len(a.seen)}, {b.host} {len(b.seen)}"
        capsys.readouterr()
        looks = len(a.looks), len(b.looks)
        checkup(settings, fetch=False)
        assert (len(a.looks), len(b.looks)) == looks  # nothing is contacted unasked
        b.kill()
        monkeypatch.setattr("engine.cli.doctor.local_servers", list)
        assert main(["doctor", "--servers", "--json"]) == 0
        told = json.loads(capsys.readouterr().out.splitlines()[-1])["addresses"]
        assert [(one["url"], one["ok"], one["models"]) for one in told] == [(a.url, True, ["m"]), (b.url, False, [])]


def test_openai_s_key_goes_to_openai_or_its_own_base_url_alone(settings, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert api_settings(settings).base_url == "https://api.openai.com/v1"
    assert api_key(settings) == KEY
    monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", "http://elsewhere.example/v1")
    assert api_key(settings) == ""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.example/v1/")
    assert api_key(settings) == KEY


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("BASE_URL", "ftp://x/v1", "no base URL"),
        ("BASE_URL", "localhost:8000/v1", "no base URL"),
        ("BASE_URL", "http://x/v1?key=1", "no base URL"),
        ("BASE_URL", "http://x:port/v1", "no base URL"),
        ("BASE_URL", f"http://me:{KEY}@x/v1", "holds a name or a password"),
        ("CONCURRENCY", "many", "whole number from 1 to 512"),
        ("CONCURRENCY", "2.5", "whole number from 1 to 512"),
        ("TIMEOUT_SECONDS", "0", "allowed: a number from"),
        ("MAX_CALLS", "-3", "allowed: a whole number"),
        ("PRICE_PROMPT", "nan", "allowed: a number"),
    ],
)
def test_a_wrong_setting_is_named_and_never_quotes_a_key(settings, monkeypatch, name, value, words):
    monkeypatch.setenv(f"JUDGESCOPE_API_{name}", value)
    with pytest.raises(InputError, match=words) as caught:
        api_settings(settings)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [f"[api]\nkey = {KEY}", f'[api]\nkey = "{KEY}\nbase_url = 3', f'api = "{KEY}"', f'[api]\nkeys = "{KEY}"'],
    ids=["unquoted", "unclosed", "no table", "misspelt"],
)
def test_a_broken_secrets_file_is_named_and_not_quoted(settings, text):
    secrets(settings, text)
    with pytest.raises(InputError, match=r"secrets\.toml") as caught:
        api_settings(settings)
    assert KEY not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_key_that_no_header_can_hold_is_refused_without_being_quoted(settings, monkeypatch):
    monkeypatch.setenv("JUDGESCOPE_API_KEY", f"{KEY}\nX: y")
    with pytest.raises(InputError, match="it is no key") as caught:
        api_key(settings)
    assert KEY not in str(caught.value)


def test_doctor_shows_the_server_and_where_the_key_is_and_warns_of_a_file_others_can_read(settings):
    path = secrets(settings, f'[api]\nbase_url = "http://10.0.0.1/v1"\nkey = "{KEY}"\n')
    line = checkup(settings, fetch=False)[-1]
    assert line.ok
    assert "http://10.0.0.1/v1, secrets file secrets.toml" in line.found
    assert "unencrypted" in line.found
    path.chmod(0o644)
    line = checkup(settings, fetch=False)[-1]
    assert not line.ok
    assert "chmod 600" in line.remedy
    assert KEY not in str(line)


def test_no_setting_of_the_server_makes_a_second_job_manager(settings, monkeypatch):
    """The manager is kept by its settings; a key or a limit must not be part of them."""
    before = get_settings()
    monkeypatch.setenv("JUDGESCOPE_API_KEY", KEY)
    secrets(settings, "[api]\nconcurrency = 2\n")
    assert get_settings() == before
    assert "key" not in ApiSettings.__dataclass_fields__


def test_a_whole_run_writes_the_key_into_no_file_and_no_output(settings, monkeypatch, capsys):
    """Answers, an error that echoes the header, and one that stops the run: files, tables, cache, manifest, output."""

    def script(n, body):
        return fault(400, f"Authorization: Bearer {KEY} is odd") if n % 3 == 2 else completion("4", TOP)

    monkeypatch.setenv("JUDGESCOPE_API_KEY", KEY)
    with serving(script) as server:
        monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", server.url)
        assert main(["score", "demo-dialogue", "--judge", "api:m", "--attack", "dsi", "--limit", "4", "--json"]) == 0
        assert f"Bearer {KEY}" in server.keys
    with serving(lambda n, _: fault(401, f"no such key {KEY}")) as server:
        monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", server.url)
        assert main(["study", "verify", "--judge", "api:m", "--limit", "2"]) == 1
    out = capsys.readouterr()
    assert "[key]" in out.err
    written = [p for p in settings.data_dir.parent.rglob("*") if p.is_file() and "weights" not in p.parts]
    assert len(written) > 4
    for content in (out.out.encode(), out.err.encode(), *(p.read_bytes() for p in written)):
        assert KEY.encode() not in content
    [manifest] = [json.loads(p.read_text()) for p in written if p.name == "manifest.json" and "score" in str(p)]
    assert manifest["judge"]["api"]["host"].startswith("127.0.0.1:")
    assert manifest["judge"]["device"] == f"server {manifest['judge']['api']['host']}"


def test_a_job_that_meets_the_cap_fails_with_the_remedy_and_goes_on_from_there(settings, monkeypatch):
    """The worker's own loop on two messages, without its process."""
    monkeypatch.setenv("JUDGESCOPE_API_CONCURRENCY", "1")
    params = {"judge": "api:m", "data": "demo-dialogue", "attacks": ["dsi"], "limit": 4, "run_id": "capped"}
    message = {"job_id": "j", "kind": "score", "lane": "batch", "params": params}
    states = []
    with serving(lambda n, _: completion("4", TOP)) as server:
        monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", server.url)
        for cap in ("5", "3"):
            monkeypatch.setenv("JUDGESCOPE_API_MAX_CALLS", cap)
            sink = io.StringIO()
            Worker(io.StringIO(), sink, settings)._run(message)
            last = json.loads(sink.getvalue().splitlines()[-1])
            states.append((last["event"], open_run(settings.runs, "capped").manifest()["state"]))
            said = open_run(settings.runs, "capped").manifest().get("error", "")
            assert ("cap of 5 API calls" in said) == (last["event"] == "failed")
            assert last["event"] == "done" or "cap of 5 API calls in one run is reached" in last["error"]
    assert states == [("failed", "stopped"), ("done", "done")]
    assert len(server.seen) == 8
