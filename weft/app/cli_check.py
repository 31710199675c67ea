"""``weft check``: the schedules of an artifact, proved once more from what it carries."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from weft.app.cli_shared import DIFFERENT, as_json_option, print_json, progress, reported
from weft.runtime import artifact
from weft.verify.verify_artifact import Checked, certificate_for, check_unit


@click.command()
@click.argument("path", metavar="MODEL.weft", type=click.Path(path_type=Path))
@as_json_option
@reported
def check(path: Path, as_json: bool) -> None:
    """Prove again what MODEL.weft, an artifact, was compiled as.

    Each unit, a cluster of operators or a loop kernel: it stays inside its tensors, keeps every
    dependence, and each read sees the value that it should. Exit code 1 where one does not; two
    instances in conflict show it. Nothing of the artifact is run.
    """
    certificate = certificate_for(artifact.mapped(path), str(path))
    found = []
    with progress(f"checking {path.name}", len(certificate.units)) as advance:
        for unit in certificate.units:
            advance(unit.original.name)
            found.append(check_unit(unit))
    refused = [each for each in found if each.refusal is not None]
    if as_json:
        print_json({"proved": not refused, "units": [_data(each) for each in found]})
    else:
        for each in found:
            click.echo(_line(each))
        click.echo(f"{path}: {len(found) - len(refused)} of {len(found)} units proved")
    if refused:
        sys.exit(DIFFERENT)


def _line(unit: Checked) -> str:
    if unit.refusal is not None:
        return f"{unit.name}: refused\n{unit.refusal}"
    counts = f"{unit.statements} statements, {unit.dependences} dependences"
    return f"{unit.name}: proved; {counts}, {unit.seconds:.2f} s"


def _data(unit: Checked) -> dict[str, object]:
    error = unit.refusal
    names = ("code", "what", "where", "why", "hint")
    return {
        "name": unit.name,
        "proved": error is None,
        "statements": unit.statements,
        "dependences": unit.dependences,
        "seconds": round(unit.seconds, 4),
        "error": None if error is None else {name: getattr(error, name) for name in names},
    }
