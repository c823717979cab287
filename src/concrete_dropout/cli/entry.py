"""What stands around a command: checks before it, continuing a stopped run, one message for every mistake.

Nothing here imports torch or Lightning, so that --help and refusals of misspelled commands come at once.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hydra._internal.utils import get_args_parser
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from concrete_dropout.cli.check import check_command
from concrete_dropout.cli.jobs import newest_sweep, saved_overrides
from concrete_dropout.cli.leftovers import discard
from concrete_dropout.cli.occupancy import OwnFolder, discard_unstarted
from concrete_dropout.cli.overrides import override, text_of, with_literal_paths
from concrete_dropout.cli.places import last_checkpoint, sweeps_of
from concrete_dropout.cli.secret import refuse_secrets
from concrete_dropout.cli.stopped import Stopped, by_what, has_failed, how_to_begin, how_to_continue, of_several, way_on
from concrete_dropout.cli.sweep_end import run_sweep
from concrete_dropout.cli.trust import OVERRIDES, check_saved_override
from concrete_dropout.errors import RunFailedError, UserError, as_user_error
from concrete_dropout.memory import memory_error
from concrete_dropout.signals import Terminated, stop_behind, terminable

LAST = "last"  # in place of a path: the checkpoint of the newest run
FAILED, USER_ERROR, INTERRUPTED = 1, 2, 130
CONTINUES = "hydra.output_subdir=null"  # Hydra's own files stay as they are until the run has started
# Options with which Hydra prints something, or takes another config than ours.
OTHERWISE = "help hydra_help cfg info shell_completion experimental_rerun config_path config_name config_dir".split()

# conf/hydra/launcher/ray.yaml has the name of the plugin's own settings, and replaces all of them.
SAME_NAME = r"\s*'hydra/launcher/ray' is validated against ConfigStore schema"


def command(conf_dir: Path, hydra_main: Callable[[], object]) -> int:
    """Run a Hydra application; returns the exit code.

    Mistakes of the user are one message on stderr (exit code 2). Anything else is a bug and shows its traceback.
    """
    warnings.filterwarnings("ignore", message=SAME_NAME)
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra shall pass exceptions on instead of printing its own digest
    try:
        with terminable(), OwnFolder.held:
            return _run(conf_dir, hydra_main)
    except UserError as error:
        return _refuse(str(error))
    except RunFailedError as error:
        return _refuse(f"{error}. run.log of its folder has the traceback", FAILED)
    except (HydraException, OmegaConfBaseException) as error:
        behind = stop_behind(error)
        return _refuse(str(error).strip()) if behind is None else _stopped(behind)
    except Stopped as stopped:
        _print_so_far(stopped.folder)
        print(f"\nStopped {stopped}. {how_to_continue(stopped.folder)}", file=sys.stderr)
        return stopped.exit_code
    except (KeyboardInterrupt, Terminated) as stop:
        return _stopped(stop)
    except BrokenPipeError:  # the reader of a help text (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # of Hydra, which makes the run's folder before the run begins
        folder = Refusals.folder
        told = as_user_error(error, folder)
        if told is None:
            raise
        if folder is not None:
            discard(folder, folder)
        return _refuse(str(told))
    return 0


def _stopped(stop: KeyboardInterrupt | Terminated) -> int:
    """The end of a command that was stopped while no run was under way."""
    discard_unstarted()
    print(f"\nStopped {by_what(stop)}. {how_to_begin(OwnFolder.folder)}", file=sys.stderr)
    return stop.exit_code if isinstance(stop, Terminated) else INTERRUPTED


def _run(conf_dir: Path, hydra_main: Callable[[], object]) -> int:
    refuse_secrets(sys.argv[1:])
    given = split(continued(with_literal_paths(sys.argv[1:])))
    if given.starts_jobs:
        check_command(given.overrides, conf_dir, given.multirun)
        given = resumed(given, conf_dir)
    sys.argv[1:] = [*given.options, *given.overrides]  # Hydra does not understand options between overrides
    if given.starts_jobs and given.multirun:
        return run_sweep(hydra_main)
    hydra_main()
    return 0


class Refusals(Callback):
    """Hydra's view of a job's end: a mistake is told in one message, and a run that never started leaves no folder."""

    folder: Path | None = None  # of the run that Hydra is about to begin

    def on_run_start(self, config: DictConfig, **kwargs: object) -> None:
        """Hydra's hook, before it makes the folder."""
        Refusals.folder = Path(config.hydra.run.dir)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: object) -> None:
        """Hydra's hook."""
        if job_return.status != JobStatus.FAILED:
            return
        seen, folder = job_return._return_value, Path(config.hydra.runtime.output_dir)
        error = seen if isinstance(seen, RunFailedError) else as_user_error(seen, folder) or memory_error(seen)
        if error is None:
            return
        if isinstance(error, UserError):
            discard(folder, Path(config.paths.output_dir))
        if config.hydra.mode == RunMode.RUN:  # before Hydra adds a line of its own
            failed = isinstance(error, RunFailedError) or has_failed(folder, seen)
            sys.exit(_refuse(f"{error}{way_on(folder) if failed else ''}", FAILED if failed else USER_ERROR))
        # The other jobs go on, and Hydra raises the first error when all are done.
        print(f"\nJob {config.hydra.job.num} failed: {error}", file=sys.stderr)


@dataclass(frozen=True)
class Arguments:
    """A command line, sorted.

    Attributes:
        options: what begins with a dash, with its values.
        overrides: key=value.
        multirun: whether it asks for a sweep.
        starts_jobs: whether it asks for jobs of our own config rather than for something printed.
    """

    options: list[str]
    overrides: list[str]
    multirun: bool
    starts_jobs: bool


def split(arguments: Sequence[str]) -> Arguments:
    """Sort a command line as Hydra would, with options anywhere.

    >>> split(["seed=1,2", "-m", "dropout=none"])
    Arguments(options=['-m'], overrides=['seed=1,2', 'dropout=none'], multirun=True, starts_jobs=True)
    """
    parsed, unknown = get_args_parser().parse_known_intermixed_args(list(arguments))
    if unknown:
        raise UserError(
            f"{unknown[0]} is no option. Settings are written key=value without dashes; options are -m (sweep), "
            "--help, --cfg job (print the config) and those of --hydra-help"
        )
    options = list(arguments)
    for setting in parsed.overrides:
        options.remove(setting)
    starts_jobs = not any(getattr(parsed, name) for name in OTHERWISE)
    return Arguments(options, list(parsed.overrides), parsed.multirun, starts_jobs)


def continued(arguments: Sequence[str]) -> list[str]:
    """The arguments, with those of the stopped run whose checkpoint ``ckpt_path`` names, to go on in its folder.

    What is given beside ``ckpt_path`` wins over the stopped run's own settings: more steps, for example. With another
    ``hydra.run.dir``, or with ``train=false``, it is a run of its own that starts from the checkpoint.
    """
    path = next((text_of(a) for a in arguments if a.startswith("ckpt_path=")), "")
    if path == LAST:
        path = str(last_checkpoint(arguments))
        arguments = [a for a in arguments if _key(a) not in ("ckpt_path", "hydra.run.dir")]
        arguments.append(override("ckpt_path", path))
    folder = Path(path).absolute().parent.parent
    saved = folder / OVERRIDES
    if path in ("", "null") or not saved.is_file():
        return list(arguments)
    given = {_key(argument) for argument in arguments} | {"sweep", "resume"}  # one job of a sweep is no sweep
    before = [entry for entry in saved_overrides(saved) if _key(entry) not in given]
    for entry in before:
        check_saved_override(entry, folder)
    if "hydra.run.dir" in given or "train=false" in [argument.lower() for argument in arguments]:
        return [*before, *arguments]
    return [*before, *arguments, override("hydra.run.dir", str(folder)), CONTINUES]


def resumed(given: Arguments, conf_dir: Path) -> Arguments:
    """The arguments of a sweep; with ``resume=true``, those of the same sweep as it was left, in its folder."""
    if "resume=true" not in [entry.lower() for entry in given.overrides]:
        return given
    if not given.multirun:
        raise UserError("resume=true is for sweeps (-m): a single run goes on with ckpt_path=last, or a path")
    if any(_key(entry) == "hydra.sweep.dir" for entry in given.overrides):
        return given
    folder = newest_sweep(sweeps_of(given.overrides, conf_dir), given.overrides)
    return replace(given, overrides=[*given.overrides, override("hydra.sweep.dir", str(folder.absolute()))])


def from_the_start(arguments: Sequence[str]) -> list[str]:
    """What ``continued`` returned, without what makes it a continuation: the command that repeats the whole run."""
    if CONTINUES not in arguments:
        return list(arguments)
    return [a for a in arguments if a != CONTINUES and _key(a) not in ("ckpt_path", "hydra.run.dir")]


def _key(override: str) -> str:
    return override.lstrip("+~").partition("=")[0]


def _print_so_far(folder: Path) -> None:
    """The summary of a run that was stopped; those of sweeps and studies are printed where they end."""
    if not of_several(folder):
        from concrete_dropout.cli.summary import print_summary

        print_summary(folder)


def _refuse(message: str, code: int = USER_ERROR) -> int:
    print(f"\nError: {message}", file=sys.stderr)
    return code
