"""The command line `envs-node`: one verb a file."""

from envs_node.deploy.cli.main import main

__all__ = ["main"]
