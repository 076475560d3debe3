"""Runs the programs of a stage within its time and keeps a log of what they print."""
import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
import time

KILLED_S = 10  # in which a killed program is gone, unless it hangs in the driver: the next stage begins all the same
MOST_LOGGED = 60_000  # bytes of one command's output: the first and the last half


class Failed(Exception):
    """The stage failed; the text goes into the summary."""


class OutOfTime(Failed):
    """The stage exceeded its time."""


class Skipped(Exception):
    """The stage can't say anything here; the text says why."""


class Done:
    """A command that ended."""

    def __init__(self, words, code, out, errors, seconds):
        self.words, self.code, self.out, self.errors, self.seconds = words, code, out, errors, seconds

    def last_words(self):
        lines = [line for line in (self.errors + "\n" + self.out).splitlines() if line.strip()]
        return lines[-1].strip()[:300] if lines else "it printed nothing"

    def how_it_ended(self):
        if self.code < 0:
            return f"{os.path.basename(self.words[0])} was ended by {signal.Signals(-self.code).name}: {self.last_words()}"
        return f"{os.path.basename(self.words[0])} {self.words[1] if len(self.words) > 1 else ''} ended with {self.code}: {self.last_words()}"


def shortened(text):
    if len(text) <= MOST_LOGGED:
        return text
    half = MOST_LOGGED // 2
    return f"{text[:half]}\n... {len(text) - MOST_LOGGED} characters left out ...\n{text[-half:]}"


class Commands:
    """Starts programs for one stage. `until` is when the stage's time is over, by time.monotonic()."""

    def __init__(self, log, environment, folder, until):
        self.log, self.environment, self.folder, self.until = log, environment, folder, until

    def left(self):
        return max(0.0, self.until - time.monotonic())

    def run(self, words, limit=None):
        """Runs to the end, or to the limit (then Failed) or the end of the stage's time (then OutOfTime), and leaves nothing running."""
        words = [str(word) for word in words]
        too_late = Failed if limit is not None and limit < self.left() else OutOfTime
        limit = min(self.left(), self.left() if limit is None else limit)
        if limit <= 0:
            raise OutOfTime(f"the stage's time was over before {os.path.basename(words[0])}")
        started = time.monotonic()
        # Files, not pipes: whatever a killed program has started may hold a pipe open.
        with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as errors:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=self.environment, cwd=self.folder,
                                       start_new_session=True)
            try:
                code = process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                kill_group(process.pid)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=KILLED_S)
            texts = []
            for file in (out, errors):
                file.seek(0)
                texts.append(file.read())
        done = Done(words, code, *texts, time.monotonic() - started)
        self.note(done)
        if code is None:
            raise too_late(f"no end after {limit:.0f} s: {shlex.join(words)[-120:]}")
        return done

    def note(self, done):
        ended = "killed at its time limit" if done.code is None else f"exit {done.code}"
        self.log.write(f"$ {shlex.join(done.words)}\n{shortened(done.out)}{shortened(done.errors)}[{ended}, {done.seconds:.1f} s]\n\n")

    def json(self, words, limit=None, good=(0,)):
        """The JSON object that a command of mptune prints; Failed where its exit code is none of the good ones."""
        done = self.run(words, limit)
        if done.code not in good:
            raise Failed(error_of(done))
        try:
            return json.loads(done.out)
        except ValueError as error:
            raise Failed(f"no JSON from {shlex.join(done.words)[-120:]}: {error}") from error


def error_parts(done):
    """mptune's own error: what, where and the remedy; None where it printed none."""
    try:
        error = json.loads(done.out)["error"]
        return error["what"], error["where"], error["remedy"]
    except (ValueError, KeyError, TypeError):
        return None


def error_of(done):
    parts = error_parts(done)
    return "{}: {}; {}".format(*parts) if parts else done.how_it_ended()


def kill_group(group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
