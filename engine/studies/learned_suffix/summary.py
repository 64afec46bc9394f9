"""A search for a phrase in words and as a JSON object."""

from __future__ import annotations

from engine.runs.folder import RunFolder
from engine.studies.running import metric_lines
from engine.studies.study import Summary


def summary_of(folder: RunFolder) -> Summary:
    """The phrase word by word on its training prompts, then its means and shifts on the other items."""
    manifest, metrics = folder.manifest(), folder.table("metrics")
    phrase, about = manifest["phrase"], manifest["data"]
    steps = zip(("(none)", *phrase["words"]), phrase["values"], strict=False)
    lines = [f"Learned on {len(manifest['split']['train_responses'])} responses, {phrase['queries']:,} queries:"]
    lines += [f"  {word:<24} {value:.3f}" for word, value in steps]
    lines.append(f"On {about['n_responses']} responses of {about['n_items']} other items:")
    lines += metric_lines(metrics[metrics["metric"].isin(["mean", "shift"])])
    if manifest["state"] == "done":
        lines.append(f"The phrase is saved: attack suffix:{phrase['name']}.")
    return Summary("\n".join(lines), {"phrase": phrase, "metrics": metrics.to_dict("records")})
