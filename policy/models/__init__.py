"""The policies that can choose: the built-in pointer policy, and how a folder becomes one."""
