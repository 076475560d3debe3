"""The story of PyTorch's model-parallel tutorial, measured: a model on one device, split over two, and as a pipeline with ever smaller
micro-batches; why each is as fast as it is; and what mptune recommends.

    python tutorial.py [MODEL [BATCH [BUDGET]]]     resnet50 on images of 64x64 without, 32 samples, 3min
"""
import pathlib
import sys

import mptune
import numpy

NAMES = {"single_device": "one device", "all_cores": "all cores as one device", "naive_model_parallel": "split over two, one computes at a time",
         "default_pipeline": "pipeline, 1F1B, default micro-batches", "data_parallel": "a replica on each device"}


def print_steps(tuned):
    """Step times, and how much faster the recommended plan is."""
    print(f"\n{'step':>9}  {'speed-up of the recommendation':30}")
    for baseline in tuned.baselines:
        if baseline.step_s is not None and baseline.speedup is not None:
            ci95 = baseline.speedup.ci95  # None for fewer than six rounds
            interval = f"[{ci95[0]:.2f}, {ci95[1]:.2f}]" if ci95 else ""
            print(f"{1e3 * baseline.step_s:6.1f} ms  {baseline.speedup.estimate:4.2f} {interval:12} {baseline.speedup.verdict:9}  "
                  f"{NAMES.get(baseline.name, baseline.name)}")
    best = tuned.recommended
    print(f"{1e3 * best.step_s:6.1f} ms  recommended: {best.plan.num_stages} stages, {best.plan.schedule.name}, "
          f"{best.plan.num_microbatches} micro-batches; {best.verdict}")


def print_curve(tuned):
    """The tutorial's figure: a pipeline's step over the size of its micro-batches."""
    print("\nsamples in a micro-batch: step, predicted, then measured where it was tried")
    points = [point for point in tuned.curve or () if point.predicted_s is not None]
    longest = max((point.predicted_s for point in points), default=1)
    for point in points:
        measured = f"{1e3 * point.step_s:8.1f} ms" if point.step_s is not None else ""
        print(f"{point.split_size:4} {'#' * round(40 * point.predicted_s / longest):40} {1e3 * point.predicted_s:8.1f} ms{measured}")


def busy_shares(path):
    """Of each device: the share of the recording in which it computes."""
    with mptune.Trace(path) as trace:
        events = trace.events()
    work = events[(events["lane"] == 0) & numpy.isin(events["kind"], ("forward", "backward", "backward_input", "backward_weight", "optimizer"))]
    span = work["end_ns"].max() - work["start_ns"].min()
    return {str(device): float((work["end_ns"] - work["start_ns"])[work["device"] == device].sum() / span)
            for device in sorted(set(work["device"]))}


def main():
    model, batch, budget = (sys.argv[1:] + ["resnet50", "32", "3min"][len(sys.argv) - 1 :])[:3]
    size = (3, 64, 64) if model.startswith("resnet") else None
    tuned = mptune.tune(model, input=size, batch=int(batch), budget=budget, output="tutorial.study", force=True)
    print_steps(tuned)
    print_curve(tuned)
    print()
    for name in ("naive_model_parallel", "best_pipeline", "recommended"):
        path = pathlib.Path("tutorial.study/traces") / f"{name}.sqlite"
        if path.exists():
            print(f"{name:22} computes: {', '.join(f'{device} {share:4.0%}' for device, share in busy_shares(path).items())}")


if __name__ == "__main__":
    main()
