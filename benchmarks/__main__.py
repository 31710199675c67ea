"""``python -m benchmarks SUITE [--threads N] [--quick] [--json FILE]``"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from weft.benchmarks import blind, chain, models

Rows = list[dict[str, Any]]

SUITES: dict[str, Callable[[int, bool], Rows]] = {
    "models": models.run,
    "chain": lambda threads, quick: chain.run(quick),
    "blind": blind.run,
}


@click.command()
@click.argument("suite", type=click.Choice(sorted(SUITES)))
@click.option("--threads", default=1, show_default=True, help="Threads of every contestant.")
@click.option("--quick", is_flag=True, help="Fewer repetitions and sizes.")
@click.option("--json", "path", type=click.Path(dir_okay=False, path_type=Path), default=None)
def main(suite: str, threads: int, quick: bool, path: Path | None) -> None:
    """Run one suite, check its answers and print a row for each case, losses included."""
    rows = SUITES[suite](threads, quick)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(*columns, title=suite)
    for row in rows:
        table.add_row(*(str(row.get(key, "")) for key in columns))
    Console(width=200).print(table)
    if path is not None:
        path.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
