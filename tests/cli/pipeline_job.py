"""Kineto traces of the ranks of a pipeline, made up: 1F1B, or interleaved 1F1B as Megatron-LM runs it, under the names of several projects."""
import json

PYTHON = "python_function"
NAMES = {  # category and name of the range around an action
    "titan": lambda kind, stage, i: ("user_annotation", f"PP:{stage}{kind}{i}"),
    "torch": lambda kind, stage, i: ("user_annotation", f"{'Forward' if kind == 'F' else 'Backward'} {i}"),
    "stage.py": lambda kind, stage, i: (PYTHON, f"torch/distributed/pipelining/stage.py(650): {'forward' if kind == 'F' else 'backward'}_one_chunk"),
    "megatron": lambda kind, stage, i: ("user_annotation", f"megatron.core.pipeline_parallel.schedules.{'forward' if kind == 'F' else 'backward'}_step"),
    "schedules.py": lambda kind, stage, i: (PYTHON, f"megatron/core/pipeline_parallel/schedules.py(284): {'forward' if kind == 'F' else 'backward'}_step"),
}
FORWARD_US, BACKWARD_US, SEND_US = 1000, 2000, 50


def order(ranks, chunks, microbatches, rank):
    """(kind, chunk, micro-batch) of a rank's actions."""
    group = ranks if chunks > 1 else microbatches
    forwards = [(chunk, i) for first in range(0, microbatches, group) for chunk in range(chunks) for i in range(first, min(first + group, microbatches))]
    warm = min(len(forwards), ranks - rank - 1 if chunks == 1 else 2 * (ranks - rank - 1) + (chunks - 1) * ranks)
    actions = [("F", *forwards[n]) for n in range(warm)]
    for n, (chunk, i) in enumerate(forwards):
        if warm + n < len(forwards):
            actions.append(("F", *forwards[warm + n]))
        actions.append(("B", chunks - 1 - chunk, i))
    return actions


def run(ranks, chunks, microbatches, slow, begin):
    """Actions by rank: (kind, stage, micro-batch, when the rank was free, start, end, what it needs of another rank or None)."""
    left = [order(ranks, chunks, microbatches, rank) for rank in range(ranks)]
    done, free, ran = {}, [begin] * ranks, [[] for _ in range(ranks)]
    while any(left):
        for rank in range(ranks):
            while left[rank]:
                kind, chunk, i = left[rank][0]
                stage = chunk * ranks + rank
                last = stage == ranks * chunks - 1
                needs = ("F", stage - 1, i) if kind == "F" and stage > 0 else None if kind == "F" else ("F", stage, i) if last else ("B", stage + 1, i)
                if needs and needs not in done:
                    break
                other = needs if needs and needs[1] % ranks != rank else None
                start = max(free[rank], done[needs] + (SEND_US if other else 0) if needs else 0)
                end = start + (FORWARD_US if kind == "F" else BACKWARD_US) * (slow if rank == ranks - 1 else 1) / chunks
                ran[rank].append((kind, stage, i, free[rank], start, end, other))
                done[kind, stage, i] = free[rank] = end
                left[rank].pop(0)
    return ran, done


def traces(naming, ranks=4, chunks=1, microbatches=8, slow=1.0, steps=3):
    """The JSON of every rank's file. The name of a kernel says its kind, stage and micro-batch: "gemm F 3 0"."""
    rows, begin = [[] for _ in range(ranks)], 10000

    def row(rank, category, name, start, end, **args):
        rows[rank].append({"ph": "X", "cat": category, "name": name, "pid": 9, "tid": 7, "ts": round(start, 3), "dur": round(end - start, 3), "args": args})

    def kernel(rank, name, launch, start, end, stream, **args):
        call = len(rows[rank]) + 1
        row(rank, "cuda_runtime", "cudaLaunchKernel", launch, launch + 2, correlation=call)
        row(rank, "kernel", name, start, end, device=0, stream=stream, correlation=call, **args)

    def message(rank, what, peer, launch, start, end, stream):
        kernel(rank, "ncclDevKernel_SendRecv(x)", launch, start, end, stream, **{
            "Collective name": what, "In msg nelems": 256, "Out msg nelems": 256, "dtype": "Float", "Group size": ranks, "Process Group Name": "pp",
            "Process Group Ranks": str(list(range(ranks))), ("Dst Rank" if what == "send" else "Src Rank"): peer})

    for step in range(steps):
        ran, done = run(ranks, chunks, microbatches, slow, begin)
        finish = max(done.values()) + 500
        for rank in range(ranks):
            row(rank, "user_annotation", f"ProfilerStep#{step}", begin, finish)
            for kind, stage, i, free, start, end, needs in ran[rank]:
                launch = max(free + 3, start - 30)
                row(rank, *NAMES[naming](kind, stage, i), launch - 2, launch + 20)
                kernel(rank, f"gemm {kind} {stage} {i}", launch, start, end, 7)
                if needs:  # the receiver has come when it is free, the message when the sender is through
                    peer, arrived = needs[1] % ranks, max(done[needs] + SEND_US, free + 5)
                    stream = 1000 * (1 + stage) + 2 * i + (kind == "F")  # sends do not wait for one another
                    message(rank, "recv", peer, free + 1, free + 1, arrived, stream)
                    message(peer, "send", rank, done[needs] - 8, done[needs], arrived, stream)
        begin = finish + 200
    return [json.dumps({"baseTimeNanoseconds": 1700000000000000000, "traceEvents": rows[rank],
                        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks}}) for rank in range(ranks)]
