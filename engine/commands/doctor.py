"""`judgescope doctor`."""

from __future__ import annotations

import argparse
from typing import Any

from engine.commands.common import OK, OUR_FAULT, add_json
from engine.settings import get_settings


def add(commands: Any) -> None:
    """Add the command."""
    doctor = commands.add_parser("doctor", help="check that everything a judge needs is there")
    doctor.add_argument("--fetch", action="store_true", help="download and prepare the bundled judge's weights")
    add_json(doctor)
    doctor.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Check, print, and say whether all that is needed is there."""
    from engine.doctor import checkup

    checks = checkup(get_settings(), fetch=args.fetch)
    for check in checks:
        print(f"{'ok     ' if check.ok else 'MISSING' if check.needed else 'absent '}  {check.name}: {check.found}")
        if not check.ok:
            print(f"           {check.remedy}")
    good = all(c.ok for c in checks if c.needed)
    return {"ok": good, "checks": [c._asdict() for c in checks], "exit_code": OK if good else OUR_FAULT}
