"""Random plans on random machines, recorded by `mptune profile MODEL`."""
import collections
import concurrent.futures
import itertools
import random
import shlex

from truth.compare import compare
from truth.ledger import read_ledger
from truth.plans import BATCH, MODELS, POOLS, random_choices
from truth.recording import Recording

REFUSED = "refused"


def measured(machine, model, pool):
    """A profile of all devices: every plan takes its costs from it, which saves measuring."""
    path = machine.folder / f"{model.split(':')[0]}.{pool}.sqlite"
    done = machine.mptune("profile", model, "--batch", BATCH, "--devices", ",".join(POOLS[pool]), "--steps", 1, "-o", path)
    if done.code != 0:
        raise SystemExit(f"{model} cannot be measured on {POOLS[pool]}: {done.said}")
    return path


def record(machine, choice, profile, number):
    """What differs, and the counts of what was compared; REFUSED if no plan is what the options say."""
    trace, ledger = machine.folder / f"{number}.trace.sqlite", machine.folder / f"{number}.csv"
    done = machine.mptune("profile", choice.model, "--batch", BATCH, *choice.options, "--measured", profile, "-o", trace,
                          settings={**choice.settings, "LEDGER": ledger})
    if done.code == 2:
        return REFUSED, done.said.strip().splitlines()[-1]
    if done.code != 0 or not trace.exists():
        return [f"exit code {done.code}: {done.said.strip()}"], {}
    results = {"profile": done.result, "import": machine.mptune("import", trace).result}
    comparison, faults = compare(read_ledger(ledger), Recording(trace), results)
    counts = collections.Counter({"records": len(comparison.expected), "steps": len(done.result["steps"]),
                                  "peer copies": sum(work.kind == "peer copy" for work in comparison.expected),
                                  "sums": sum(len(step) for step in comparison.sums()) * len(results)})
    for path in (trace, ledger):
        path.unlink()
    return faults, counts


def show(choice, faults):
    settings = " ".join(f"EMULATED_{name}={value}" for name, value in choice.settings.items())
    print(f"{settings} mptune profile {choice.model} --batch {BATCH} {shlex.join(choice.options)}", *faults, sep="\n  ", flush=True)


def run(machine, asked):
    chance = random.Random(asked.seed)
    models, pools = (list(MODELS)[:1], ["whole"]) if asked.short else (list(MODELS), list(POOLS))
    wanted = 8 if asked.short else asked.plans
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        kinds = list(itertools.product(models, pools))
        profiles = dict(zip(kinds, pool.map(lambda kind: measured(machine, *kind), kinds), strict=True))
        choices = random_choices(chance, 2 * wanted, models, pools)
        runs = ((choice, pool.submit(record, machine, choice, profiles[choice.model, choice.pool], number)) for number, choice in enumerate(choices))
        return count(runs, wanted)


def count(runs, wanted):
    counts, bad, refused = collections.Counter(), [], collections.Counter()
    compared = 0
    for choice, future in batches(runs):
        faults, counted = future.result()
        if faults == REFUSED:
            refused[counted] += 1
            continue
        compared += 1
        counts.update(counted)
        if faults:
            bad.append(choice)
            show(choice, faults)
        if compared == wanted:
            break
    print(f"{compared} plans: {', '.join(f'{number} {name}' for name, number in sorted(counts.items()))}; {len(bad)} plans differ")
    print(*(f"  {number} not run: {text}" for text, number in refused.most_common()), sep="\n")
    return bad


def batches(runs, ahead=8):
    """In their order, with some running ahead."""
    queue = collections.deque(itertools.islice(runs, ahead))
    while queue:
        yield queue.popleft()
        queue.extend(itertools.islice(runs, 1))
