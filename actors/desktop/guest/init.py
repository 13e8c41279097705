"""The first process of a desktop: takes in orphans and does nothing else."""

import os
import signal

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
while True:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:  # first of all, what ended before we listened
            pass
    except ChildProcessError:
        pass
    signal.sigwait({signal.SIGCHLD})
