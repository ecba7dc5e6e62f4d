"""Every task once; what has a reward may be learned from."""

import asyncio

import scripted
import verifiers.v1 as vf


async def main() -> None:
    """A line a rollout."""
    config = vf.SingleAgentEnvConfig(
        taskset={"id": "tickets"},
        agent={"harness": {"id": "scripted"}, "runtime": {"type": "subprocess"}},
    )
    env = vf.SingleAgentEnv(config)
    client = vf.EvalClientConfig(base_url=scripted.serve(), api_key_var="HOME")
    context = vf.ModelContext(model="scripted", client=client, sampling=vf.SamplingConfig())
    async with env.serving():
        for task in env.taskset:
            episode = await env.run_slot(*env.slots(task), context)
            [trace] = episode.traces
            reward = trace.rewards["statediff"]
            score = None if reward is None else reward.score
            print(task.data.name, "ok" if episode.ok else "left out", score, trace.metrics)
            for error in trace.errors:
                print(f"  {error.type}: {error.message}")


asyncio.run(main())
