"""Becomes a program that ends when the process that started it does, however that ends: _launch.py PARENT PROGRAM ARGUMENT...

subprocess could ask for this in a preexec_fn, which runs Python code between fork and exec: that can block for ever where other threads
hold locks, and PyTorch has threads. This file runs after exec, in a process with one thread, and costs about 20 ms.
"""
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt before the program is there ends this without a traceback
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # the program ends its workers, and loses no finished trial
    if os.getppid() != int(sys.argv[1]):
        sys.exit(128 + signal.SIGTERM)  # it ended before the line above
    os.execv(sys.argv[2], sys.argv[2:])
