"""python dashboard.py wandb: the dashboard's views as a W&B workspace and report."""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from concrete_dropout.cli.dashboard_options import Parser, runs_folder
from concrete_dropout.cli.paths import shortest
from concrete_dropout.cli.wandb_key import wandb_key_is_configured
from concrete_dropout.errors import UserError

PROJECT = "concrete-dropout"  # of conf/logger/wandb.yaml
EXAMPLES = """examples:
  python dashboard.py wandb                        the views of the runs under outputs/; saved on the server
                                                   where a key is configured (wandb login, WANDB_API_KEY)
  python dashboard.py wandb --offline              only the files, in outputs/dashboard/wandb/
  python dashboard.py wandb outputs/digits --entity my-team --project digits

The runs themselves are logged by train.py; those that were logged offline are uploaded with wandb sync.
"""


def wandb_command(arguments: Sequence[str]) -> int:
    """Write the views, and save them on the server if there is one; returns the exit code."""
    given = parser().parse_args(arguments)
    if importlib.util.find_spec("wandb_workspaces") is None:
        raise UserError("the views are made by a package that is missing: pip install wandb-workspaces")
    folder = runs_folder(given.folder)
    from concrete_dropout.dashboard.build import FOLDER, build_site
    from concrete_dropout.dashboard.wandb_keys import keys_of

    out = given.out or folder / FOLDER
    keys = keys_of(build_site(folder, out).rows)
    if not keys.scalars and not keys.layers:
        raise UserError(f"no run below {folder} has logged anything yet: there is nothing to view")
    os.environ.setdefault("WANDB_SILENT", "true")
    from concrete_dropout.dashboard.wandb_push import ANYBODY, push_views, write_views

    entity = given.entity or os.environ.get("WANDB_ENTITY") or ANYBODY
    for path in write_views(out, keys, entity, given.project):
        print(f"{path.stem:<12} {shortest(path)}")
    if given.offline or os.environ.get("WANDB_MODE") in ("offline", "disabled") or not wandb_key_is_configured():
        why = "as asked" if given.offline else "no key is configured: run wandb login, or set WANDB_API_KEY"
        print(f"server       not asked ({why})")
        return 0
    for address in push_views(out, keys, entity, given.project):
        print(f"saved        {address}")
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser(
        prog="python dashboard.py wandb",
        description="The dashboard's views for W&B: a workspace, a report, and charts of p over depth and of "
        "calibration. Built and checked without a network, and saved as JSON beside the page.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("folder", nargs="?", type=Path, help="with the runs, at any depth (outputs, or OUTPUT_DIR)")
    made.add_argument("--out", type=Path, metavar="FOLDER", help="of the page; the views are in wandb/ below it")
    made.add_argument("--entity", help="user or team that owns the views (WANDB_ENTITY, or the key's own)")
    project = os.environ.get("WANDB_PROJECT") or PROJECT
    made.add_argument("--project", default=project, help=f"of the runs ({project})")
    made.add_argument("--offline", action="store_true", help="write the files, and ask no server")
    made.add_argument("--traceback", action="store_true", help="show where in the code an error came from")
    return made
