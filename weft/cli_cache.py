"""``weft cache``: the compiled programs that are kept between runs."""

from __future__ import annotations

import click

from weft.cache import open_cache
from weft.cli_shared import as_json_option, print_json, reported
from weft.options import Options


@click.group()
def cache() -> None:
    """The compiled programs that are kept between runs."""


@cache.command()
@as_json_option
@reported
def info(as_json: bool) -> None:
    """Where the cache is, and how large."""
    options = Options.from_environment()
    found = open_cache(options.cache_dir, options.cache_bytes) if options.cache else None
    data: dict[str, object] = {"folder": None, "entries": 0, "bytes": 0}
    if found is not None:
        entries = len(list(found.folder.glob("*.weft")))
        data = {"folder": str(found.folder), "entries": entries, "bytes": found.size()}
    if as_json:
        print_json(data | {"limit": options.cache_bytes})
    else:
        click.echo(
            f"{data['folder'] or 'off'}: {data['entries']} programs, {data['bytes']:,} bytes"
        )


@cache.command()
@as_json_option
@reported
def clear(as_json: bool) -> None:
    """Forget every compiled program."""
    options = Options.from_environment()
    found = open_cache(options.cache_dir, options.cache_bytes) if options.cache else None
    size = found.size() if found is not None else 0
    if found is not None:
        found.clear()
    if as_json:
        print_json({"freed": size})
    else:
        click.echo(f"{size:,} bytes freed")
