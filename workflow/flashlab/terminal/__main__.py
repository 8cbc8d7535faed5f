"""Behind ``./run report``: Snakemake, with the output that concerns the user.

The call's configuration is checked first: of a mistake in it, Snakemake names neither the file nor
the line.
"""

from __future__ import annotations

import sys

try:
    import argparse
    import io
    import json
    import os
    from collections.abc import Sequence
    from contextlib import redirect_stderr
    from pathlib import Path

    from snakemake import cli

    from flashlab.config import ConfigError, parse_override, read_layer
    from flashlab.plan.watching import WorkflowGoneError, end_with_workflow
except KeyboardInterrupt:
    sys.exit(130)


def for_snakemake(words: Sequence[str]) -> list[str]:
    """A command line with one ``--config``, the last one of which Snakemake heeds alone.

    It holds the values of all, and our own options by the keys of the configuration that they set.
    A folder was given where ``./run`` was called, which has changed to its own.
    """
    called_in = Path(os.environ.get("FLASHLAB_CALLED_IN", ""))
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--again", nargs="*")
    parser.add_argument("--quick", action="store_const", const="true")
    parser.add_argument("--import", type=lambda path: f'"{os.path.relpath(called_in / path)}"')
    parser.add_argument("--device", dest="device_name", type='"{}"'.format)
    parser.add_argument("-C", "--config", nargs="*", action="extend", default=[])
    known, others = parser.parse_known_args(words)
    configured = vars(known).pop("config")
    if known.again is not None:
        known.again = json.dumps(known.again or "all", ensure_ascii=False)
    configured = [*(f"{key}={value}" for key, value in vars(known).items() if value), *configured]
    imports = ("import=", "--configfile")  # which may have the key
    if known.device_name and not any(x.startswith(imports) for x in [*configured, *others]):
        raise ConfigError("--device names the GPU of imported results; give --import DIR with it")
    return [*others, *(["--config", *configured] if configured else [])]


def main(arguments: Sequence[str]) -> int:
    """Call Snakemake; its exit status, 130 where it is interrupted from the keyboard."""
    said = io.StringIO()
    try:
        end_with_workflow()  # of a `flashlab.plan.freezing` that has started this
        try:
            with redirect_stderr(said):
                parser, options = cli.parse_args(for_snakemake(arguments))
        finally:
            lines = said.getvalue().splitlines(keepends=True)
            told = "Using workflow specific profile profiles/default "
            sys.stderr.writelines(line for line in lines if not line.startswith(told))
        [*map(read_layer, options.configfile or ()), *map(parse_override, options.config or ())]
        return 0 if cli.args_to_api(options, parser) else 1
    except KeyboardInterrupt:
        return 130
    except (ConfigError, WorkflowGoneError) as error:
        print(f"error: {error}", file=sys.stderr)
    except Exception as error:
        cli.print_exception(error)
    return 1


if __name__ == "__main__":
    sys.argv[0] = "snakemake"  # whose usage is printed
    sys.exit(main(sys.argv[1:]))
