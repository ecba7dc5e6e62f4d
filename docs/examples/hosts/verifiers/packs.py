"""One task of the pack `shop`, by three models; what has a reward may be learned from."""

import asyncio

import clerk
import verifiers.v1 as vf


async def main() -> None:
    """A line a rollout."""
    config = vf.SingleAgentEnvConfig(
        taskset={"id": "shop", "contracts": ["shop/refund-returned-order"]},
        agent={"harness": {"id": "clerk"}, "runtime": {"type": "subprocess"}},
    )
    env = vf.SingleAgentEnv(config)
    client = vf.EvalClientConfig(base_url=clerk.serve(), api_key_var="HOME")
    async with env.serving():
        for task in env.taskset:
            for model in clerk.SCRIPT:
                context = vf.ModelContext(model=model, client=client, sampling=vf.SamplingConfig())
                episode = await env.run_slot(*env.slots(task), context)
                [trace] = episode.traces
                reward = trace.rewards.get("statediff")
                score = None if reward is None else reward.score
                print(model, "ok" if episode.ok else "left out", score)
                for error in trace.errors:
                    print(f"  {error.type}: {error.message}")


asyncio.run(main())
