"""Random plans and machines."""
import typing

MODELS = {"mlp:layers=6,width=24": 6, "transformer:d=32,layers=4,heads=2,seq=16,vocab=50": 6, "encoder-decoder-classifier:width=4,hidden=16": 8}
POOLS = {"whole": ["cuda:0", "cuda:1", "cuda:2", "cuda:3"], "parts": ["cuda:0/1of2", "cuda:0/2of2", "cuda:1/1of2", "cuda:1/2of2"]}
BATCH = 8
ONE_STAGE_EACH = ["naive", "gpipe", "1f1b", "eager-1f1b", "zb1p", "zb2p"]
TWO_STAGES_EACH = ["interleaved", "looped-bfs", "zbv", "v-half", "v-min", "dualpipe-v"]


class Choice(typing.NamedTuple):
    model: str
    pool: str
    options: list
    settings: dict


def random_options(chance, devices, layers):
    several = [name for name in TWO_STAGES_EACH if 2 * len(devices) <= layers]
    schedule = chance.choice(ONE_STAGE_EACH + several)
    options = ["--devices", ",".join(devices), "--schedule", schedule, "--steps", str(chance.randint(1, 3))]
    stages = len(devices) * (2 if schedule in TWO_STAGES_EACH else 1)
    if schedule in ("gpipe", "1f1b") and len(devices) > 2 and chance.random() < 0.4:
        replicas = chance.sample([2] + [1] * (len(devices) - 2), len(devices) - 1)
        options += ["--stages", str(len(replicas)), "--replicas", ",".join(map(str, replicas))]
        stages = len(replicas)
    if schedule != "naive":
        # Interleaved micro-batches come in groups of as many as there are devices.
        options += ["--microbatches", str(chance.choice([8]) if schedule in TWO_STAGES_EACH else chance.randint(1, 8))]
    kept = chance.choice(["", "", "--recompute", "--offload"])
    if kept:
        options += [kept, chance.choice(["all", str(chance.randrange(stages))])]
    return options + chance.choice([[], ["--optimizer", "adam"], ["--optimizer", "sgd:momentum=0.9"]])


def random_speeds(chance):
    settings = {}
    if chance.random() < 0.6:
        settings.update(LAUNCH_NS=chance.randint(1000, 30000), FLOPS=chance.choice([1e9, 1e11]), BANDWIDTH=chance.choice([1e9, 1e11]))
        settings["KERNEL_TIMES"] = f"aten::mm={chance.randint(1000, 200000)}"
        settings["SPEEDS"] = ",".join(str(round(chance.uniform(0.5, 1.5), 2)) for _ in range(4))
    for link in ("HOST_LINK", "PEER_LINK"):
        if chance.random() < 0.6:
            settings[link] = f"{10 ** chance.uniform(6, 10):.0f},{chance.randint(0, 30000)}"
    if "PEER_LINK" in settings and chance.random() < 0.5:
        settings["LINKS"] = f"0:1:{10 ** chance.uniform(6, 10):.0f}:{chance.randint(0, 30000)},1:0:1e9:500"
    return settings


def random_settings(chance):
    settings = {"CLOCK_NS": chance.randint(0, 10**15), "CLOCK_PPM": round(chance.uniform(-20, 20), 2), "PEERS": chance.choice([1, 1, 0])}
    settings.update(random_speeds(chance))
    for quirk in ("LAZY_FLUSH", "LATE_RECORDS", "PEER_COPIES_TWICE"):
        if chance.random() < 0.2:
            settings[quirk] = 1
    if chance.random() < 0.2:
        settings.update(JITTER_US=chance.randint(10, 200), SEED=chance.randint(1, 1000))
    return settings


def random_choice(chance, models, pools):
    model, pool = chance.choice(models), chance.choice(pools)
    devices = chance.sample(POOLS[pool], chance.randint(2, 4))
    return Choice(model, pool, random_options(chance, devices, MODELS[model]), random_settings(chance))


def random_choices(chance, count, models=tuple(MODELS), pools=tuple(POOLS)):
    return [random_choice(chance, models, pools) for _ in range(count)]
