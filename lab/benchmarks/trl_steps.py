"""GRPO of TRL, two steps on a processor: what a reward of None does to the others of its group.

    python -m lab.benchmarks.trl_steps          # in an environment with trl, torch and statediff

The model is a random one of two layers, its words are three: a completion closes ticket 7, closes
both, or leaves a state that nobody can judge, by its first word. Nothing is downloaded. A step is
checked against the rule: of a group, a completion without a reward has no advantage, and the
advantages of the others are those of a group without it.
"""

from __future__ import annotations

import statistics
import tempfile
from typing import Any

import torch
from datasets import Dataset
from statediff_hosts.training import reward_function
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from statediff import Judge

CONTRACT = """
contract: notes/close-ticket
version: 1.0.0
owner: support
intent: Close ticket 7 and change nothing else.
require:
  - {id: closed, update: ticket, where: it.id == 7, set: {status: closed}}
"""
BEFORE = {"ticket": [{"id": number, "status": "open"} for number in (7, 8)]}
WORDS = ("seven", "both", "gone")
GROUP = 8


def after(completion: str) -> Any:
    """The state that the first word of a completion leaves."""
    first = (completion.split() or ["gone"])[0]
    if first not in ("seven", "both"):
        return {"user": []}
    closed = (7,) if first == "seven" else (7, 8)
    return {
        "ticket": [
            {**ticket, "status": "closed" if ticket["id"] in closed else "open"}
            for ticket in BEFORE["ticket"]
        ]
    }


def model_and_words() -> tuple[Any, Any]:
    """A random model, and a tokenizer of a few words."""
    names = ("<pad>", "<end>", "close", *WORDS)
    words = Tokenizer(models.WordLevel({name: at for at, name in enumerate(names)}, "<pad>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    named = {"pad_token": names[0], "eos_token": names[1], "unk_token": names[0]}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **named)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(names),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=32,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config), tokenizer


def expected(rewards: list[float | None]) -> list[float]:
    """The advantages of a group, as the rule has them."""
    known = [reward for reward in rewards if reward is not None]
    if len(known) < 2:
        return [0.0] * len(rewards)
    mean, spread = statistics.mean(known), statistics.stdev(known) + 1e-4
    return [0.0 if reward is None else (reward - mean) / spread for reward in rewards]


class Watched(GRPOTrainer):
    """A trainer that keeps the advantages of each step."""

    advantages: list[list[float]]

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        scored = super()._generate_and_score_completions(inputs)
        self.advantages.append(scored["advantages"].tolist())
        return scored


def main(steps: int = 2) -> None:
    """Two steps, a line each; `AssertionError` where an advantage is another."""
    judge = Judge(CONTRACT, BEFORE)
    judged = reward_function(
        lambda completions, **_: [judge] * len(completions),
        lambda completions, **_: [after(completion) for completion in completions],
    )
    given: list[list[float | None]] = []

    def contract_reward(**columns: Any) -> list[float | None]:
        given.append(judged(**columns))
        return given[-1]

    model, tokenizer = model_and_words()
    start = [each.detach().clone() for each in model.parameters()]
    with tempfile.TemporaryDirectory() as folder:
        trainer = Watched(
            model=model,
            processing_class=tokenizer,
            reward_funcs=contract_reward,
            train_dataset=Dataset.from_dict({"prompt": ["close seven"] * GROUP * steps}),
            args=GRPOConfig(
                output_dir=folder,
                per_device_train_batch_size=GROUP,
                num_generations=GROUP,
                max_completion_length=4,
                max_steps=steps,
                learning_rate=0.01,
                logging_steps=1,
                report_to="none",
                save_strategy="no",
                use_cpu=True,
                seed=0,
                bf16=False,
            ),
        )
        trainer.advantages = []
        trainer.train()
    assert len(given) == len(trainer.advantages) == steps
    for rewards, advantages in zip(given, trainer.advantages, strict=True):
        print(rewards, [round(each, 3) for each in advantages])
        for one, other in zip(expected(rewards), advantages, strict=True):
            assert abs(one - other) < 1e-3, (rewards, advantages)
    masked = sum(reward is None for rewards in given for reward in rewards)
    is_moved = any((one != two).any() for one, two in zip(start, model.parameters(), strict=True))
    print(f"{masked} of {steps * GROUP} left out; the model {'moved' if is_moved else 'stayed'}")


if __name__ == "__main__":
    main()
