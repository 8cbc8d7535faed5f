"""The plugin by Snakemake's own test of its interface, and what only the plugin decides."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from snakemake.logging import DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.tests import MockOutputSettings, TestLogHandlerBase

from snakemake_logger_plugin_flashlab import LogHandler


@pytest.fixture(autouse=True)
def interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores the handling of interrupts after a test."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


class TestInterface(TestLogHandlerBase):
    __test__ = True

    def get_log_handler_cls(self) -> type[LogHandlerBase]:
        return LogHandler

    def get_log_handler_settings(self) -> Any:
        return None


class Handler:
    """The plugin in a folder with nothing in it, fed with records."""

    def __init__(self, **settings: Any) -> None:
        common = MockOutputSettings()
        vars(common).update(settings)
        self.handler = LogHandler(common, None)
        self.handler.addFilter(DefaultFilter(set(), False, common.verbose, False, False))
        self.handler.setFormatter(DefaultFormatter(set(), False))

    def log(self, message: str | None, level: int = logging.INFO, **extra: Any) -> None:
        record = logging.LogRecord("snakemake", level, "", 0, message, (), None)
        vars(record).update(extra)
        self.handler.handle(record)

    def error(self, message: str, kind: str) -> None:
        self.log(message, logging.ERROR, event=LogEvent.ERROR, exception=kind)

    def start(self) -> None:
        self.log("Workflow has started!", event=LogEvent.WORKFLOW_STARTED, cmd="snakemake")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_configuration_error_is_shown_once_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    handler = Handler()
    handler.log("Config file config/config.yaml is extended by additional config.")
    handler.error(
        'WorkflowError in file "common.smk", line 47:\nNot usable:\n  bogus: unknown\n'
        '  File "common.smk", line 47, in <module>\n  File "x", line 1, in f',
        "WorkflowError",
    )
    handler.handler.close()
    assert capsys.readouterr().err == "error: Not usable:\n  bogus: unknown\n"


def test_the_answers_of_calls_that_make_nothing_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handler = Handler()
    handler.log("Building DAG of jobs...")
    handler.log("Unlocked working directory.")
    handler.handler.close()
    assert capsys.readouterr().err == "Unlocked working directory.\n"


def test_warnings_and_errors_are_never_lost(capsys: pytest.CaptureFixture[str]) -> None:
    handler = Handler()
    handler.start()
    handler.log("Select jobs to execute...")
    handler.log("Waiting for a slow disk", logging.WARNING)
    handler.error("IncompleteFilesException:\nhalf of it", "IncompleteFilesException")
    handler.handler.close()
    assert capsys.readouterr().err == (
        "Waiting for a slow disk\nIncompleteFilesException:\nhalf of it\n"
    )


def test_what_a_failed_command_raises_is_kept_where_no_job_explains_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handler = Handler()
    handler.start()
    handler.error("RuleException:\nCalledProcessError in file x, line 1:", "RuleException")
    handler.handler.close()
    assert "CalledProcessError in file x" in capsys.readouterr().err


def test_verbose_leaves_the_terminal_to_snakemake(capsys: pytest.CaptureFixture[str]) -> None:
    handler = Handler(verbose=True)
    assert not handler.handler.writes_to_stream
    handler.log("Unlocked working directory.")
    handler.handler.close()
    assert capsys.readouterr() == ("", "")


def test_a_dry_run_goes_where_snakemake_writes_it(capsys: pytest.CaptureFixture[str]) -> None:
    handler = Handler(dryrun=True, stdout=True)
    handler.start()
    handler.log("Nothing to be done (all requested files are present and up to date).")
    handler.handler.close()
    assert capsys.readouterr() == ("Nothing to do: all of it is up to date.\n", "")


def test_a_job_that_only_names_what_to_make_is_no_job(capsys: pytest.CaptureFixture[str]) -> None:
    handler = Handler(dryrun=True, stdout=True)
    handler.start()
    for number, (rule, output) in enumerate({"tables": ["runs.csv"], "report_target": []}.items()):
        handler.log(
            f"rule {rule}:",
            event=LogEvent.JOB_INFO,
            **{"jobid": number, "rule_name": rule, "rule_msg": None, "shellcmd": None},
            **{"input": [], "output": output, "log": []},
        )
    handler.handler.close()
    assert capsys.readouterr().out == (
        "Would make:\n  Tables\nThis was a dry run: nothing was measured or made.\n"
    )


def test_an_interrupt_before_any_job_leaves_no_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handler = Handler()
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        handler.handler.close()
        sys.excepthook(type(error), error, error.__traceback__)
    said = capsys.readouterr().err
    assert said.startswith("\nInterrupted") and "Traceback" not in said


def test_a_call_that_is_terminated_says_so_once_and_what_is_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handler = Handler()
    handler.start()
    for _ in range(2):
        handler.log("Will exit after finishing currently running jobs (scheduler).")
    handler.error(
        "WorkflowError:\nAt least one job did not complete successfully.", "WorkflowError"
    )
    handler.handler.close()
    assert capsys.readouterr().err == (
        "Will exit after finishing currently running jobs (scheduler).\n\n"
        "Interrupted. What is finished is kept; the same call goes on from there.\n"
    )


def test_finding_the_plugin_costs_other_calls_nothing(root: Path) -> None:
    code = (
        "import sys, snakemake_logger_plugin_flashlab\n"
        "assert not {'rich', 'pikepdf', 'flashlab.terminal.progress'} & set(sys.modules)"
    )
    path = str(root / "workflow")
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=True)
