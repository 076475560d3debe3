"""Planted causes of idle time: what they add to a step must be given to them. Kernels take a modelled time, far above what a host needs."""

MODEL = ["mlp:layers=6,width=16", "--batch", "8", "--devices", "cuda:0,cuda:1,cuda:2", "--steps", "3", "--microbatches", "4", "--schedule", "gpipe"]
SPEED = {"LAUNCH_NS": 1_000_000}
TOLERANCE = 0.1  # of what was planted


def profiled(machine, name, *options, **settings):
    done = machine.mptune("profile", *MODEL, *options, "-o", machine.folder / f"causes.{name}.sqlite", settings={**SPEED, **settings})
    if done.code != 0:
        raise SystemExit(f"{name}: exit code {done.code}: {done.said[-300:]}")
    return done.result


def mean(result, device, *causes):
    """Seconds of a step that a device is idle by these causes."""
    return sum(result["devices"][device]["idle"][cause] for cause in causes)


def window(result):
    return result["devices"][0]["window_s"]


def show(name, result):
    for device in result["devices"]:
        idle = ", ".join(f"{cause} {seconds * 1e3:.1f}" for cause, seconds in device["idle"].items() if seconds > 1e-4)
        print(f"  {name}, {device['device']}: step {device['window_s'] * 1e3:.1f} ms, idle {idle}", flush=True)


def slow_link(machine, plain):
    """Copies over one link take 20 ms: what waits for them, and does not copy itself, waits for communication."""
    result = profiled(machine, "slow link", "--measured", machine.folder / "causes.plain.sqlite", LINKS="0:1:1e9:20000000,1:0:1e9:1000")
    show("slow link", result)
    added = window(result) - window(plain)
    waited = mean(result, 2, "copy_wait") - mean(plain, 2, "copy_wait")
    faults = [] if abs(waited - added) <= TOLERANCE * added else [f"slow link: {added:.4f} s more, of which cuda:2 waits {waited:.4f} s for communication"]
    if not any("copies from cuda:0 to cuda:1" in advice["text"] for advice in result["advice"]):
        faults.append(f"slow link: not named: {[advice['text'] for advice in result['advice']]}")
    return faults


def nothing_planted(plain):
    """The bubble of the last stage at a step's end is the pipeline's, not the host's."""
    host = max(mean(plain, device, "host", "sync", "unexplained") for device in range(3))
    return [] if host <= 0.1 * window(plain) else [f"nothing planted: {host:.4f} s of {window(plain):.4f} s are called the host's"]


def slow_host(machine):
    """Kernels that take no time: the GPUs wait for their hosts."""
    result = profiled(machine, "slow host", "--measured", machine.folder / "causes.plain.sqlite", LAUNCH_NS=1)
    show("slow host", result)
    idle = sum(device["idle_s"] for device in result["devices"])
    host = sum(mean(result, device, "host", "sync") for device in range(3))
    faults = [] if host >= 0.5 * idle else [f"slow host: {host:.4f} s of {idle:.4f} s idle time are called the host's"]
    if not any(advice["cause"] in ("host", "sync") for advice in result["advice"]):
        faults.append(f"slow host: not named: {[advice['text'] for advice in result['advice']]}")
    return faults


def run(machine, asked):
    plain = profiled(machine, "plain", PEER_LINK="1e9,1000")
    show("nothing planted", plain)
    faults = nothing_planted(plain) + slow_link(machine, plain) + slow_host(machine)
    for fault in faults:
        print(f"  {fault}", flush=True)
    return faults
