# mypy: ignore-errors
"""Train the priorities of weighted selection (publish/learned_policy.json) on generated logs alone.

    python benchmarks/train_policy.py --out policy.json
    python benchmarks/train_policy.py --steps 2 --logs 2 --out policy.json     # whether it runs: a minute on a CPU
    python benchmarks/train_policy.py --compare policy.json src/searchveil/publish/learned_policy.json

Needs PyTorch, which the project does not: `python -m venv .venv-torch && .venv-torch/bin/pip install torch numpy`. A
CPU takes hours for the first command, a GPU two minutes. The rounds are run as in publish/rounds.py
with ordinary floats and normal noise. What the last round names is counted softly, by a logistic function of how far an
item's sum is above the threshold; what is named earlier counts as one (else the policy learns to overshoot). Adam
follows the gradient through all rounds: to the shares of the account, the weights of the evidence and the logarithm of
the priority at 33 knots of the sum so far. The logs are drawn from families of power laws (`training_logs`); neither
the demo log nor the Zipf log of benchmarks/selection.py is among them. Sums are added up as integers, so that the same
machine gives the same policy again.
"""

import argparse
import json
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, lru_cache
from math import exp, sqrt
from pathlib import Path

import numpy as np
import torch

KNOTS = 33
NOISE_SHARE = 0.7
PROMISES = ((1.0, 1e-6), (1.0, 1e-6), (1.0, 1e-6), (3.0, 1e-6), (0.5, 1e-6), (1.0, 1e-10), (2.0, 1e-8))
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


# --- Logs -------------------------------------------------------------------------------------------------------------


@dataclass
class Log:
    """Pairs of user and item, each once, sorted by item."""

    users: torch.Tensor
    items: torch.Tensor
    number_of_users: int
    number_of_items: int

    @classmethod
    def of(cls, user, item) -> "Log":
        pairs = np.unique(item.astype(np.int64) << 32 | user.astype(np.int64))
        item, user = pairs >> 32, pairs & 0xFFFFFFFF
        _, item = np.unique(item, return_inverse=True)
        on_device = (torch.as_tensor(part, device=DEVICE) for part in (user, item))
        return cls(*on_device, int(user.max()) + 1, int(item.max()) + 1)

    def bounded(self, most: int, seed: int) -> "Log":
        """At most so many items of each user, drawn uniformly."""
        keys = torch.rand(len(self.users), generator=generator(seed), device=DEVICE)
        order = torch.argsort(self.users + 0.999 * keys.double())
        users = self.users[order]
        first = torch.searchsorted(users, users)
        kept = order[torch.arange(len(users), device=DEVICE) - first < most].sort().values
        items, place = torch.unique(self.items[kept], return_inverse=True)
        return Log(self.users[kept], place, self.number_of_users, len(items))


def generator(seed: int):
    return torch.Generator(device=DEVICE).manual_seed(seed)


def drawn_log(seed: int, users, held, spread, exponents, bend, items, alone) -> Log:
    """Searches of a user are log-normal with mean `held`; popularity falls as two power laws that meet at rank `bend`;
    a part of all searches, `alone`, is for texts that nobody else has."""
    random = np.random.default_rng(seed)
    searches = np.maximum(1, np.rint(random.lognormal(np.log(held) - spread**2 / 2, spread, users))).astype(np.int64)
    ranks = np.arange(1, items + 1, dtype=np.float64)
    popularity = np.where(ranks < bend, (ranks / bend) ** -exponents[0], (ranks / bend) ** -exponents[1])
    bounds = np.cumsum(popularity)
    user = np.repeat(np.arange(users), searches)
    item = np.searchsorted(bounds, random.random(len(user)) * bounds[-1])
    lone = random.random(len(user)) < alone
    item[lone] = items + np.flatnonzero(lone)
    return Log.of(user, item)


def training_logs(number: int, seed: int):
    """Families of power laws: from few items a user to many, from steep to flat, from shared texts to mostly lone."""
    random = np.random.default_rng(seed)
    for place in range(number):
        exponent = random.uniform(0.7, 1.2)
        yield drawn_log(
            seed + 1 + place,
            users=int(np.exp(random.uniform(np.log(10_000), np.log(80_000)))),
            held=float(np.exp(random.uniform(np.log(4), np.log(45)))),
            spread=random.uniform(0.0, 1.4),
            exponents=(exponent, exponent + random.choice([0.0, random.uniform(0, 0.6)])),
            bend=int(np.exp(random.uniform(np.log(300), np.log(30_000)))),
            items=int(np.exp(random.uniform(np.log(100_000), np.log(3_000_000)))),
            alone=random.choice([0.0, random.uniform(0, 0.5)]),
        )


# --- The rounds -------------------------------------------------------------------------------------------------------


def exact_sum(parts, places, size):
    """Sums that do not depend on the order of addition: as whole multiples of a power of two."""
    largest = parts.detach().abs().max().clamp_min(1e-30)
    unit = 2.0 ** torch.floor(torch.log2(largest.double()) - 38)
    whole = torch.round(parts.double() / unit).long()
    return (torch.zeros(size, dtype=torch.int64, device=parts.device).index_add_(0, places, whole) * unit).float()


class Gather(torch.autograd.Function):
    """values[places], with an exact sum as its gradient."""

    @staticmethod
    def forward(ctx, values, places):
        ctx.save_for_backward(places)
        ctx.size = len(values)
        return values[places]

    @staticmethod
    def backward(ctx, gradient):
        (places,) = ctx.saved_tensors
        return exact_sum(gradient, places, ctx.size), None


class Sum(torch.autograd.Function):
    """Sums by place, exactly; the gradient is a gather."""

    @staticmethod
    def forward(ctx, parts, places, size):
        ctx.save_for_backward(places)
        return exact_sum(parts, places, size)

    @staticmethod
    def backward(ctx, gradient):
        (places,) = ctx.saved_tensors
        return gradient[places], None, None


def tail(x):
    return torch.special.ndtr(-x)


@lru_cache
def sigma_for(epsilon: float, delta: float) -> float:
    low, high = 0.01, 1000.0
    for _ in range(100):
        middle = torch.tensor((low + high) / 2, dtype=torch.float64)
        spent = tail(epsilon * middle - 1 / (2 * middle)) - exp(epsilon) * tail(epsilon * middle + 1 / (2 * middle))
        low, high = (float(middle), high) if spent > delta else (low, float(middle))
    return high


def threshold_for(epsilon: float, delta: float, sigma: float, variances, candidates: int, noise_share: float):
    """b, with its gradient with regard to the variances after each round: one Newton step from the root."""
    limit = np.log((1 - noise_share) * delta / (exp(epsilon) * candidates))

    def excess(b, v):
        return torch.logsumexp(torch.special.log_ndtr(-b / (sigma * v.sqrt())), 0) - limit

    variances = variances.cpu()
    fixed = variances.detach()
    low, high = 0.0, 200.0
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(torch.tensor(middle, dtype=torch.float64), fixed) > 0 else (low, middle)
    with torch.enable_grad():
        b = torch.tensor(high, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(excess(b, fixed), b)
    return b.detach() - excess(b.detach(), variances) / slope


class Policy(torch.nn.Module):
    """Shares, evidence and log priorities; what is written to the JSON file is what `tables` gives."""

    def __init__(self, shares, evidence, log_priority) -> None:
        super().__init__()
        shares = torch.as_tensor(shares, dtype=torch.float64)
        self.shares_log = torch.nn.Parameter(shares.log())
        self.evidence_log = torch.nn.Parameter((torch.as_tensor(evidence, dtype=torch.float64) / shares).log())
        self.log_priority = torch.nn.Parameter(torch.as_tensor(log_priority, dtype=torch.float64))

    def tables(self):
        shares = torch.softmax(self.shares_log, 0)
        evidence = shares * self.evidence_log.exp()
        evidence = evidence / (evidence**2 / shares).sum().sqrt()
        return shares, evidence, (evidence**2 / shares).cumsum(0)

    def priorities(self, after: int, x, b, sigma, variance, dropped: float):
        table = self.log_priority[after]
        origin = 3 * sigma * sqrt(variance)
        place = ((KNOTS - 1) * (x + origin) / (b + origin)).clamp(0, KNOTS - 1)
        left = place.detach().floor().clamp(max=KNOTS - 2).long()
        part = place - left
        log_p = (Gather.apply(table, left) * (1 - part) + Gather.apply(table, left + 1) * part).float()
        relative = (log_p - table.max().float()).exp()
        hopeless = (relative < dropped) & (place < int(table.argmax()))
        return relative, hopeless


def rounds(
    log: Log,
    policy: Policy,
    epsilon,
    delta,
    *,
    seed,
    candidates=200,
    noise_share=NOISE_SHARE,
    dropped=0.1,
    set_share=1.0,
):
    """(named before the last round, the sums of the others after it, in units of weight, the threshold)."""
    shares, evidence, variances = policy.tables()
    sigma = sigma_for(epsilon, noise_share * delta) / sqrt(set_share)
    b = threshold_for(epsilon, delta, sigma, variances, candidates, noise_share)
    limit, variances = float(b.detach()), variances.tolist()
    b = b.to(DEVICE)
    random = generator(seed)
    users, items = log.users, log.items
    x = torch.zeros(log.number_of_items, dtype=torch.float64, device=DEVICE)
    p = torch.ones(log.number_of_items, device=DEVICE)
    before = 0
    for r in range(len(shares)):
        of_pair = Gather.apply(p, items)
        squares = Sum.apply(of_pair**2, users, log.number_of_users)
        weight = of_pair * Gather.apply(squares.clamp_min(1e-12).rsqrt(), users)
        noise = torch.randn(len(x), generator=random, device=DEVICE)
        v = Sum.apply(weight, items, len(x)) + noise * (sigma / shares[r].sqrt()).float()
        x = x + evidence[r] * v
        if r == len(shares) - 1:
            break
        named = x.detach() >= limit
        p, hopeless = policy.priorities(r + 1, x, b, sigma, variances[r], dropped)
        before += int(named.sum())
        stays = ~(named | hopeless)
        number = stays.cumsum(0) - 1
        of_stays = stays[items]
        users, items, x, p = users[of_stays], number[items[of_stays]], x[stays], p[stays]
    return before, x, b


def named_by(log, policy, epsilon, delta, **options) -> int:
    with torch.no_grad():
        before, x, b = rounds(log, policy, epsilon, delta, **options)
        return before + int((x >= b).sum())


# --- Training ---------------------------------------------------------------------------------------------------------


def start(number_of_rounds: int, growth: float = 1.15) -> Policy:
    """Near the formula of publish/priorities.py, at the knots."""
    shares = np.array([growth**r for r in range(number_of_rounds)])
    shares /= shares.sum()
    done = np.cumsum(shares)
    sigma, b = 4.2974, 26.2
    table = [np.zeros(KNOTS)]
    for t in done[:-1]:
        origin = 3 * sigma * sqrt(t)
        x = np.arange(KNOTS) / (KNOTS - 1) * (b + origin) - origin
        rate = x / t
        sure = 1 / (1 + np.exp(-((1.5 + 4 * t) * (rate - (0.2 + 0.7 * t) * b) * sqrt(t) / sigma - 0.5)))
        need = (b + 0.56 * sigma * sqrt(1 - t) - x) / (1 - t)
        up = np.clip(need / np.maximum(1.24 * rate, 1e-9), 0.05, 1) ** 1.4
        table.append(np.log(np.maximum(sure * up, 0.02)))
    return Policy(shares, shares, np.array(table))


def train(policy: Policy, logs, steps: int, seed: int, rate: float, candidates: int, noise_share: float, say):
    """One log and one promise a step; yields are relative to what the policy at the start names."""
    random = np.random.default_rng(seed)
    policy.to(DEVICE)
    at_start = deepcopy(policy)

    @cache
    def usual(place: int, promise: tuple[float, float]) -> int:
        options = {"seed": 1, "candidates": candidates, "noise_share": noise_share}
        return max(named_by(logs[place], at_start, *promise, **options), 20)

    groups = [
        {"params": [policy.shares_log, policy.evidence_log], "lr": rate / 3},
        {"params": [policy.log_priority], "lr": rate},
    ]
    adam = torch.optim.Adam(groups, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps, eta_min=rate / 50)
    average = 1.0
    for step in range(steps):
        place, promise = int(random.integers(len(logs))), PROMISES[random.integers(len(PROMISES))]
        before, x, b = rounds(
            logs[place],
            policy,
            *promise,
            seed=seed + 1000 + step,
            candidates=candidates,
            noise_share=noise_share,
            dropped=0.02,
        )
        width = 0.04 * float(b.detach()) * (1 - 0.7 * step / steps)
        value = (before + torch.sigmoid((x - b) / width).sum()) / usual(place, promise)
        smooth = (policy.log_priority[1:, 2:] - 2 * policy.log_priority[1:, 1:-1] + policy.log_priority[1:, :-2]) ** 2
        loss = -value + 0.0003 * smooth.sum()
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        adam.step()
        schedule.step()
        average = 0.99 * average + 0.01 * float(value.detach())
        if step % 200 == 0 or step == steps - 1:
            say(f"step {step}: {average:.3f} of the start, b {float(b.detach()):.3f}")
    return policy


def written(policy: Policy, about: str) -> str:
    shares, evidence, _ = (part.detach().cpu().numpy() for part in policy.tables())
    table = policy.log_priority.detach().cpu().numpy()
    table = table - table.max(axis=1, keepdims=True)
    record = {
        "about": about,
        "shares": [round(float(share), 5) for share in shares],
        "evidence": [round(float(part), 5) for part in evidence],
        "log_priority": [[round(float(value), 4) for value in row] for row in table],
    }
    return json.dumps(record)


def read_policy(path: str) -> Policy:
    given = json.loads(Path(path).read_text())
    return Policy(given["shares"], given["evidence"], given["log_priority"]).to(DEVICE)


def compare(paths) -> None:
    """Items that each policy names on logs that no training used: the mean of three runs of the rounds above."""
    logs = {
        name: drawn_log(seed, 65_000, held, 1.0, (1.0, 1.0), 1000, 1_000_000, 0.0).bounded(200, 1)
        for name, seed, held in (("zipf", 900, 30.0), ("few", 901, 4.0), ("two", 902, 2.0))
    }
    for path in paths:
        policy = read_policy(path)
        for name, log in logs.items():
            for epsilon in (1.0, 3.0):
                named = np.mean([named_by(log, policy, epsilon, 1e-6, seed=seed) for seed in (1, 2, 3)])
                print(f"{path}  {name}, ε = {epsilon:g}: {named:,.0f}", flush=True)


ABOUT = (
    "Priorities of method weighted, trained by benchmarks/train_policy.py on generated logs: shares of the account, "
    "weights of the evidence, log p at 33 knots of 32*(x+o)/(b+o), o = 3*sigma*sqrt(v_r)"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--logs", type=int, default=30)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0.03)
    parser.add_argument("--candidates", type=int, default=200)
    parser.add_argument("--noise-share", type=float, default=NOISE_SHARE)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="where the trained table is written")
    what.add_argument("--compare", nargs="+", metavar="FILE", help="count what these tables name; nothing is trained")
    given = parser.parse_args()
    if given.compare:
        compare(given.compare)
        return
    logs = [log.bounded(given.candidates, 1) for log in training_logs(given.logs, given.seed)]
    policy = train(
        start(given.rounds),
        logs,
        given.steps,
        given.seed,
        given.rate,
        given.candidates,
        given.noise_share,
        lambda text: print(text, flush=True),
    )
    given.out.write_text(written(policy, ABOUT) + "\n")


if __name__ == "__main__":
    main()
