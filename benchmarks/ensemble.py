"""Train the paper's ensemble on one accelerator, and measure how the rate grows with the number of seeds.

    PYTHONPATH=src python benchmarks/ensemble.py --out results/ensemble            # 128 seeds x 10 000 steps of bfs
    PYTHONPATH=src python benchmarks/ensemble.py --out results/ensemble --scaling  # steps/s from 1 to 1024 seeds

Everything is written under --out: metrics and manifest of the run, weights of its best, median and worst seed, and
scaling.json. A run that is cut off goes on from its checkpoint (under --runs) when it is called again.
"""

import argparse
import json
import time
from pathlib import Path

import jax

from mechgap.training import TrainConfig, fit, save_excerpt
from mechgap.training.ensemble import initial_state, plan_of
from mechgap.training.members import make_members
from mechgap.training.programs import make_mesh, spread, step_programs

SEEDS = (1, 16, 128, 512, 1024)


def rate(config: TrainConfig, seconds: float = 4.0) -> dict[str, float]:
    """Steps per second over whole cycles of the sizes, after one cycle to warm up."""
    plan, members = plan_of(config), make_members([config])
    mesh = make_mesh(config.seeds, None)
    members = spread(members, mesh)
    state = spread(jax.jit(lambda: initial_state(plan, members, None))(), mesh)
    begun = time.perf_counter()
    programs = step_programs(plan, config.sizes, state, members, mesh)
    compile_s = time.perf_counter() - begun

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where checkpoints are kept")
    parser.add_argument("--algorithm", default="bfs")
    parser.add_argument("--seeds", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--scaling", action="store_true", help="measure rates instead of training")
    parser.add_argument("--seconds", type=float, default=420.0, help="start no further measurement after this long")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    if not options.scaling:
        config = TrainConfig(
            algorithm=options.algorithm, seeds=options.seeds, steps=options.steps, hidden=options.hidden
        )
        ensemble = fit([config], folder=options.runs, quiet=True)
        save_excerpt(options.out, ensemble)
        print(ensemble, ensemble.summary(), ensemble.manifest["times"], flush=True)
        return
    rows = []
    for hidden, counts in ((128, SEEDS), (4, (1024,))):
        for seeds in counts:
            if time.perf_counter() - begun > options.seconds:
                break
            rows.append(rate(TrainConfig(algorithm=options.algorithm, seeds=seeds, hidden=hidden)))
            print(rows[-1], flush=True)
            device = jax.local_devices()[0].device_kind
            text = json.dumps({"device": device, "jax": jax.__version__, "rows": rows}, indent=1)
            (options.out / "scaling.json").write_text(text)


if __name__ == "__main__":
    main()
