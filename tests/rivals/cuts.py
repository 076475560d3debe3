"""Cuts of a chain of layers into the stages of a pipeline, from measured times of its layers."""
import itertools

# Stages of each process.
LOOP, V = "loop", "v"


def process_of(stage, stages, processes, placement):
    """Stage s runs in process s mod `processes`, or in a V the last process has two neighbours and the first the ends."""
    folded = stages - 1 - stage if placement == V and stage >= processes else stage
    return folded % processes


def cost(times, cuts, processes, placement, microbatches):
    """Estimate of a step: the work of the busiest process, and the dearest stage once more for filling and draining."""
    bounds = [0, *cuts, len(times)]
    stages = [sum(times[a:b]) for a, b in itertools.pairwise(bounds)]
    work = [0.0] * processes
    for stage, seconds in enumerate(stages):
        work[process_of(stage, len(stages), processes, placement)] += seconds
    return microbatches * max(work) + max(stages)


def best_cuts(times, stages, processes, placement, microbatches, count):
    """The `count` cuts (first layers of all stages but the first) of least cost; fewer where there are no more."""
    all_cuts = itertools.combinations(range(1, len(times)), stages - 1)
    return sorted(all_cuts, key=lambda cuts: cost(times, cuts, processes, placement, microbatches))[:count]
