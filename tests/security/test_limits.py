"""Every limit on what is uploaded stands in the documentation once, as it is enforced."""

import re
import tomllib
from pathlib import Path

from dashboard.uploads import MAX_UPLOAD_MB
from engine.data.formats.hub import MAX_FILE
from engine.runs.archive import MAX_ZIP

ROOT = Path(__file__).resolve().parents[2]
UPLOADER = re.compile(r"st\.file_uploader\(.*?\n    +\)", re.DOTALL)


def test_upload_limits_are_said_once_and_are_those_of_the_code():
    [said] = re.findall(r"Caps on uploads: (.*?)\.\n- ", (ROOT / "docs/security.md").read_text(), re.DOTALL)
    server = tomllib.loads((ROOT / ".streamlit/config.toml").read_text())["server"]["maxUploadSize"]
    told = [int(n) for n in re.findall(r"(\d+) MB", said)]
    assert told == [MAX_UPLOAD_MB, server, 300, 1, MAX_ZIP // 2**20, MAX_FILE // 1_000_000]
    assert server * 2**20 == MAX_ZIP
    assert not re.search(r"\d MB a file|uploads? \d+ MB", (ROOT / "docs/data-and-judges.md").read_text())


def test_every_uploader_has_one_of_these_limits():
    """Those without their own have the server's; they are the two that the documentation names."""
    held = {
        f"{path.parent.name}/{path.stem}": UPLOADER.findall(path.read_text())
        for path in (ROOT / "dashboard").rglob("*.py")
    }
    limits = {name: ["max_upload_size" in call for call in calls] for name, calls in held.items() if calls}
    assert {name: own.count(False) for name, own in limits.items() if not all(own)} == {"transport_audit/setup": 2}
    assert len(limits) >= 6
