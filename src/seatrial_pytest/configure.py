"""What a project that mentions Seatrial gets when pytest starts: its folders collected, its groups watched."""

from pathlib import Path

import pytest

from seatrial_pytest import is_trial_file

from .options import options_of


def set_up(config: pytest.Config) -> None:
    """Read the options, so that mistakes in them are told at once, and act on them."""
    options = options_of(config)
    if options.testpaths:
        config.pluginmanager.register(Folders(options.testpaths), "seatrial-folders")
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args.extend(str(folder) for folder in options.testpaths if not _is_covered(config, folder))
    if options.groups:
        from .groups import read_groups
        from .summary import watch

        watch(config).groups = read_groups(options.groups)


def _is_covered(config: pytest.Config, folder: Path) -> bool:
    given = [(config.invocation_params.dir / each).resolve() for each in config.args]
    return any(folder.is_relative_to(each) for each in given)


class Folders:
    """Collects every scenario file of the folders in `testpaths`, whatever its name."""

    def __init__(self, places: tuple[Path, ...]) -> None:
        self._places = places
        self._found: dict[Path, Path] = {}
        """By where they really are: files, as pytest came to them first."""

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        from seatrial.scenarios.load import belongs_to_folder

        if is_trial_file(file_path) or not belongs_to_folder(file_path) or not self._is_within(file_path):
            return None
        if self._found.setdefault(file_path.resolve(), file_path) != file_path:
            return None
        from .files import ScenarioFile

        return ScenarioFile.from_parent(parent, path=file_path)

    def _is_within(self, path: Path) -> bool:
        """By whichever links pytest came to it: the places are where they really are."""
        return any(each.resolve() in self._places for each in (path, *path.parents))
