// Privacy policies: whether the numbers of a job keep the promise that it makes. src/searchveil/crowd/policy.py.
//
// The proofs are in docs/guarantees/crowd.md. Python computes the same bounds with intervals; here they are
// floating-point numbers times MORE, which is far above what these can be off: a job whose promise holds only by less
// than that is refused.

export const NAMES = ["ST_u", "DP_u", "DP_a", "FT_u", "FT_a"] as const;
export const USUAL_REPORTS = 1000;
const MOST_REPORTS = 10_000;
export const MOST_SHARES = 10_000;
const MORE = 1 + 1e-6;
const AND_MORE = 1e-13; // of the composition alone, as in Python
const MOST_ITEMS = 20;
const MOST_THRESHOLD = 2000;
const STEP = 0.005;
const LARGEST_LOSS = 12;
const MOST_NUMBERS = 300;

export interface Policy {
  readonly name: (typeof NAMES)[number];
  readonly k: number;
  readonly per_user: number;
  readonly p: number;
  readonly epsilon: number | null;
  readonly delta: number | null;
  readonly threshold: number;
  readonly colluding: number;
}

/** Whether each instance counts; otherwise each user counts once. */
export function perArtifact(policy: Policy): boolean {
  return policy.name === "FT_a" || policy.name === "DP_a";
}

export function isPrivate(policy: Policy): boolean {
  return policy.name === "ST_u" || isNoisy(policy);
}

export function isNoisy(policy: Policy): boolean {
  return policy.name === "DP_u" || policy.name === "DP_a";
}

/** An error unless the promise of these numbers holds; so no server can weaken a job. */
export function checkPolicy(policy: Policy): void {
  const { k, per_user, colluding, epsilon, delta, p } = policy;
  if (!NAMES.includes(policy.name)) throw new Error(`no policy '${String(policy.name)}'`);
  if (![k, per_user, policy.threshold, colluding].every(Number.isInteger)) throw new Error("a number of a policy is not whole");
  if (k < 2 || k > MOST_SHARES || per_user < 1 || per_user > MOST_REPORTS) throw new Error("k or the number of artifacts per user is out of range");
  if (colluding < 0 || (colluding > 0 && policy.name !== "ST_u")) throw new Error("only ST_u allows for lying clients");
  if (policy.name === "ST_u" ? !(p > 0 && p < 1) : p !== 1) throw new Error("the probability of a policy is out of range");
  if (!isPrivate(policy)) return;
  if (epsilon === null || delta === null || !(epsilon > 0 && delta > 0 && delta < 1)) throw new Error("a private policy lacks epsilon or delta");
  const found = exactDelta(policy, epsilon);
  if (!(found <= delta)) throw new Error(`${policy.name} with k ${k} has delta ${found.toPrecision(3)}, and promises ${delta}`);
}

function exactDelta(policy: Policy, epsilon: number): number {
  const { k, per_user, threshold, colluding, p } = policy;
  if (policy.name === "ST_u") {
    const honest = k - colluding * per_user;
    if (honest < 1 || per_user > MOST_ITEMS) return 1;
    return sampleThresholdDelta(epsilon, p, Math.min(honest, MOST_THRESHOLD), per_user); // δ falls with τ
  }
  // Python rounds the scale of the noise up, so δ is looked at a little further out.
  const scale = (per_user / epsilon) * (1 + 1e-15);
  if (policy.name === "DP_u") {
    return threshold < k ? 1 : Math.min(1, MORE * someOf(tail(scale, threshold - k), per_user));
  }
  const beyond = threshold - (k - 1);
  if (beyond < per_user) return 1;
  return Math.min(1, MORE * Math.max(someOf(tail(scale, beyond - 1), per_user), tail(scale, beyond - per_user)));
}

/** P(X ≥ t) of discrete Laplace noise X with this scale, for t ≥ 0. */
function tail(scale: number, t: number): number {
  const q = Math.exp(-1 / scale);
  return q ** t / (1 + q);
}

function someOf(chance: number, times: number): number {
  return -Math.expm1(times * Math.log1p(-chance));
}

// --- Sample and threshold: src/searchveil/privacy/sample_threshold.py ---

/** δ of publishing all counts of at least `threshold` users; 1 where ε is too small for any. */
export function sampleThresholdDelta(epsilon: number, p: number, threshold: number, perUser: number): number {
  if (perUser * Math.log1p(-p) < -epsilon) return 1;
  const chances = binomials(p);
  while (perUser === 1 && lastCount(epsilon, p, threshold) > threshold + MOST_NUMBERS) {
    threshold = Math.floor(threshold / 2); // δ falls with τ
    if (threshold === 0) return 1;
  }
  if (perUser === 1) return Math.min(1, MORE * largestDivergence(epsilon, p, threshold, chances));
  return composed(epsilon, p, threshold, perUser, chances);
}

type Chances = (n: number) => readonly number[];

/** P(Bin(n, p) = j) for j from 0 to n, remembered. */
function binomials(p: number): Chances {
  const factorials = [0];
  const logFactorial = (n: number): number => {
    for (let i = factorials.length; i <= n; i++) factorials.push((factorials[i - 1] as number) + Math.log(i));
    return factorials[n] as number;
  };
  const known = new Map<number, readonly number[]>();
  return (n) => {
    let found = known.get(n);
    if (found === undefined) {
      const [heads, tails] = [Math.log(p), Math.log1p(-p)];
      found = Array.from({ length: n + 1 }, (_, j) =>
        Math.exp(logFactorial(n) - logFactorial(j) - logFactorial(n - j) + j * heads + (n - j) * tails),
      );
      known.set(n, found);
    }
    return found;
  };
}

/** From this number of users on, one user more makes less and less difference. */
function lastCount(epsilon: number, p: number, threshold: number): number {
  const q = 1 - (1 - p) * Math.exp(-epsilon);
  return q > 0 ? Math.max(threshold, Math.ceil((threshold / q) * MORE) + 1) : threshold;
}

function largestDivergence(epsilon: number, p: number, threshold: number, chances: Chances): number {
  let worst = 0;
  const factor = Math.exp(epsilon);
  for (let n = threshold - 1; n <= lastCount(epsilon, p, threshold); n++) {
    const [more, fewer] = [chances(n + 1), chances(n)];
    let gained = 0;
    let hidden = 0;
    for (let j = 0; j <= n + 1; j++) {
      const difference = (more[j] as number) - factor * (fewer[j] ?? 0);
      if (j < threshold) hidden += difference;
      else if (difference > 0) gained += difference;
    }
    worst = Math.max(worst, gained + Math.max(0, hidden));
  }
  return worst;
}

/** Several items: the composition of the pair that dominates every single one, on a grid of losses. */
function composed(epsilon: number, p: number, threshold: number, perUser: number, chances: Chances): number {
  const { losses, masses, unbounded } = lossDistribution(p, threshold, chances);
  let total = masses;
  for (let i = 1; i < perUser; i++) total = convolve(total, masses);
  let delta = someOf(unbounded, perUser);
  total.forEach((mass, i) => {
    const loss = perUser * (losses[0] as number) + STEP * i;
    if (loss > epsilon) delta += mass * -Math.expm1(epsilon - loss);
  });
  return Math.min(1, delta * MORE + AND_MORE);
}

function lossDistribution(p: number, threshold: number, chances: Chances): { losses: number[]; masses: number[]; unbounded: number } {
  const lowest = Math.log1p(-p);
  const losses = Array.from({ length: Math.ceil((LARGEST_LOSS - lowest) / STEP) + 1 }, (_, i) => lowest + STEP * i);
  const weights = losses.map(Math.exp);
  const first = losses.findIndex((loss, i) => i > 0 && lastCount(loss, p, threshold) <= threshold + MOST_NUMBERS);
  const known = losses.map((loss, i) => (i === 0 ? p : i < first ? NaN : largestDivergence(loss, p, threshold, chances)));
  const profile = known.map((value, i) => {
    if (!Number.isNaN(value)) return value;
    const part = ((weights[i] as number) - (weights[0] as number)) / ((weights[first] as number) - (weights[0] as number));
    return p + part * ((known[first] as number) - p);
  });
  for (let i = profile.length - 2; i >= 0; i--) profile[i] = Math.max(profile[i] as number, profile[i + 1] as number);
  // Slopes in e^ε: −Q(loss > ε), where Q is the distribution that the loss is measured against.
  const beyond = [1];
  for (let i = 1; i < profile.length; i++) {
    const slope = ((profile[i - 1] as number) - (profile[i] as number)) / ((weights[i] as number) - (weights[i - 1] as number));
    beyond.push(Math.min(beyond[i - 1] as number, 1, slope));
  }
  beyond.push(Math.min(beyond.at(-1) as number, 0));
  const masses = weights.map((weight, i) => Math.max(0, (beyond[i] as number) - (beyond[i + 1] as number)) * weight);
  return { losses, masses, unbounded: profile.at(-1) as number };
}

function convolve(one: readonly number[], other: readonly number[]): number[] {
  const sum = new Array<number>(one.length + other.length - 1).fill(0);
  one.forEach((a, i) => {
    if (a !== 0) for (let j = 0; j < other.length; j++) sum[i + j] = (sum[i + j] as number) + a * (other[j] as number);
  });
  return sum;
}
