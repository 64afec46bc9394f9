"""The dashboard driven in-process: every test has its own home, its own job manager and empty caches."""

from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from dashboard.linked_run import PAGES
from dashboard.pages.attack_lab import one
from engine.data.dataset import Dataset, build_dataset
from engine.data.mapping import suggest_mapping
from engine.data.reading import read_table
from engine.data.store import save_dataset
from engine.jobs import manager as jobs
from tests.dashboard.helpers import KEY, MARKUP, file_bytes
from tests.dashboard.near_worker import NearWorker

APP = Path(__file__).parents[2] / "dashboard" / "app.py"


@pytest.fixture(autouse=True)
def fresh(settings, monkeypatch):
    """No worker, cache or choice of one test reaches the next."""
    monkeypatch.setattr(jobs, "_start", NearWorker)
    monkeypatch.setattr(one, "PATIENCE_S", 240.0)  # AppTest has no polling: a page waits for its answer
    st.config.set_option("client.showErrorDetails", "full")
    st.cache_data.clear()
    st.cache_resource.clear()
    yield
    jobs.manager().close()
    jobs._manager_of.cache_clear()


@pytest.fixture
def app():
    """The app, not yet run; `switch_page` takes it to a page as a link does, without Start, the dearest one, first."""
    made = AppTest.from_file(str(APP), default_timeout=300)
    made._registered_pages = {
        calc_hash(url): {"page_script_hash": calc_hash(url), "script_path": str(APP.parent / file), "url_pathname": url}
        for file, (_, _, url) in PAGES.items()
    }
    return made


@pytest.fixture
def saved(settings) -> Dataset:
    """A data set on disk whose responses are full of markup."""
    raw = read_table("mine.csv", file_bytes([{"response": f"{MARKUP} {i}", "item_id": f"q{i // 2}"} for i in range(8)]))
    dataset = build_dataset(raw, suggest_mapping(raw.frame), task="dialogue", name=f"mine {MARKUP}")
    save_dataset(dataset, settings.datasets)
    return dataset


@pytest.fixture
def server(settings, monkeypatch):
    """A secrets file; nothing is asked, so there need be nobody at the address."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    path = settings.data_dir / "secrets.toml"
    path.write_text(
        f'[api]\nbase_url = "http://127.0.0.1:9/v1"\nkey = "{KEY}"\nmodels = ["named"]\n'
        "price_prompt = 2.0\nprice_completion = 8.0\nmax_calls = 300\n",
        encoding="utf-8",
    )
    path.chmod(0o600)
    return path
