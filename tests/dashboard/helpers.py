"""Files and names the dashboard's tests share."""

import csv
import io

PLANTED = "planted:injection"
KEY = "sk-page-secret-99887766"
MARKUP = "<script>window.hit=1</script><img src=x onerror=window.hit=1> **bold** :red[x] $e=mc^2$ ![p](http://x/y.png)"


def file_bytes(rows: list[dict[str, str]], delimiter: str = ";", bom: bool = True) -> bytes:
    """The rows as a CSV file, by default the kind a German Excel writes."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode("utf-8-sig" if bom else "utf-8")


def rows(n_items: int = 4, per_item: int = 2, text: str = "") -> list[dict[str, str]]:
    """A small file under column names that need mapping."""
    return [
        {
            "frage": f"What is the capital of country {i}?",
            "id": f"q{i}",
            "antwort": text or f"The capital of country {i} is a city, says system {k}.",
            "modell": f"m{k}",
        }
        for i in range(n_items)
        for k in range(per_item)
    ]
