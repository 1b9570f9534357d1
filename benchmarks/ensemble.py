"""Train the paper's ensemble on one accelerator, and measure how the rate grows with the number of seeds.

    PYTHONPATH=src python benchmarks/ensemble.py --out results/ensemble            # 128 seeds x 10 000 steps of bfs
    PYTHONPATH=src python benchmarks/ensemble.py --out results/ensemble --scaling  # steps/s from 1 to 1024 seeds

    PYTHONPATH=src python benchmarks/ensemble.py --out docs --plot results/scaling.json  # draw that, and its floor

Everything is written under --out: metrics and manifest of the run, weights of its best, median and worst seed, and
scaling.json. A run that is cut off goes on from its checkpoint (under --runs) when it is called again.
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import jax

from mechgap.training import TrainConfig, fit, save_excerpt
from mechgap.training.ensemble import initial_state, plan_of
from mechgap.training.members import make_members
from mechgap.training.programs import make_mesh, spread, step_programs

SEEDS = (1, 16, 128, 512, 1024)


def prepared(config: TrainConfig) -> tuple:
    """State, members and compiled steps of an ensemble, and how long they took to compile."""
    plan, members = plan_of(config), make_members([config])
    mesh = make_mesh(config.seeds, None)
    members = spread(members, mesh)
    state = spread(jax.jit(lambda: initial_state(plan, members, None))(), mesh)
    begun = time.perf_counter()
    programs = step_programs(plan, config.sizes, state, members, mesh)
    return config, state, members, programs, time.perf_counter() - begun


def rate(config: TrainConfig, state, members, programs, compile_s: float, seconds: float = 4.0) -> dict[str, float]:
    """Steps per second over whole cycles of the sizes, after one cycle to warm up."""

    def cycle(state):
        for n in config.sizes:
            state, _ = programs[n](state, members)
        return state

    state = jax.block_until_ready(cycle(state))
    begun, cycles = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        state = jax.block_until_ready(cycle(state))
        cycles += 1
    steps = cycles * len(config.sizes) / (time.perf_counter() - begun)
    memory = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    return {
        "seeds": config.seeds,
        "hidden": config.hidden,
        "steps_per_s": steps,
        "seed_steps_per_s": steps * config.seeds,
        "compile_s": compile_s,
        "peak_gib": memory / 2**30,
    }


# What a step cannot go below on an H200: matrix products of nodes in tf32, and arithmetic on pairs of nodes in float32
# (weights that every node passes through, 6 operations each forwards and backwards; operations per number of a pair).
TF32, FLOAT32, WEIGHTS, ON_PAIRS = 400e12, 40e12, 230e3, 62
ROUNDS = {4: 3, 7: 6, 11: 8, 13: 8, 16: 8}  # of bfs, as results/bfs/manifest.json says


def floor(seeds: int, batch: int = 32, hidden: int = 128) -> float:
    """The steps per second that the arithmetic alone allows over the five-size cycle."""
    seconds = 0.0
    for n, rounds in ROUNDS.items():
        graphs = seeds * batch
        seconds += rounds * graphs * n * WEIGHTS * 6 / TF32 + rounds * graphs * n * n * hidden * ON_PAIRS / FLOAT32
    return len(ROUNDS) / seconds


def plot(source: Path, out: Path) -> None:
    """Seed-steps per second against seeds, with the floor, as an SVG."""
    import matplotlib.pyplot as plt

    rows = [row for row in json.loads(source.read_text())["rows"] if row["hidden"] == 128]
    seeds = [row["seeds"] for row in rows]
    for row in rows:
        print(f"{row['seeds']:5d} seeds: {floor(row['seeds']) / row['steps_per_s']:.1f} times the floor")
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    axes.loglog(seeds, [row["seed_steps_per_s"] for row in rows], "o-", label="measured")
    axes.loglog(seeds, [seeds[0] * floor(seeds[0])] * len(seeds), "--", color="grey", label="arithmetic alone")
    axes.loglog(
        seeds, [rows[0]["steps_per_s"] * s for s in seeds], ":", color="grey", label="as many as one seed, each"
    )
    axes.set(xlabel="seeds trained at once", ylabel="seed-steps per second", title="BFS, hidden 128, one H200")
    axes.legend()
    figure.savefig(out / "scaling.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where checkpoints are kept")
    parser.add_argument("--algorithm", default="bfs")
    parser.add_argument("--seeds", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--scaling", action="store_true", help="measure rates instead of training")
    parser.add_argument("--plot", type=Path, metavar="SCALING_JSON", help="draw rates that were measured before")
    parser.add_argument("--counts", type=int, nargs="+", default=SEEDS, help="of seeds, for --scaling")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.plot is not None:
        plot(options.plot, options.out)
        return
    if not options.scaling:
        config = TrainConfig(
            algorithm=options.algorithm, seeds=options.seeds, steps=options.steps, hidden=options.hidden
        )
        ensemble = fit([config], folder=options.runs, quiet=True)
        save_excerpt(options.out, ensemble)
        print(ensemble, ensemble.summary(), ensemble.manifest["times"], flush=True)
        return
    plan = [(128, seeds) for seeds in options.counts] + [(4, max(options.counts))]
    configs = [TrainConfig(algorithm=options.algorithm, seeds=seeds, hidden=hidden) for hidden, seeds in plan]
    with ThreadPoolExecutor() as pool:  # compile all side by side, then measure one after the other
        waiting = [pool.submit(prepared, config) for config in configs]
        wait(waiting)
        rows = []
        for future in waiting:
            rows.append(rate(*future.result()))
            print(rows[-1], flush=True)
    device = jax.local_devices()[0].device_kind
    text = json.dumps({"device": device, "jax": jax.__version__, "rows": rows}, indent=1)
    (options.out / "scaling.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
