"""The configuration: its layers merged, its defaults filled in, and all of it checked."""

from flashlab.config.check import override_layer, parse_override, reported_config, resolve_config
from flashlab.config.layers import ConfigError, Layer, config_file, named_benchmark, read_layer

__all__ = [
    "ConfigError",
    "Layer",
    "config_file",
    "named_benchmark",
    "override_layer",
    "parse_override",
    "read_layer",
    "reported_config",
    "resolve_config",
]
