// Which artifacts of a log a job takes, and by which coin they are sent: src/searchveil/crowd/choice.py.

import { type Artifact, distinct, fits, KINDS, type Search } from "./artifacts.js";
import { unhex } from "./bytes.js";
import type { Job } from "./jobs.js";
import { perArtifact } from "./policy.js";
import { coin, heads } from "./report.js";

/** Everything that the job could take, in its order, and how many artifacts were too long. */
export function usable(job: Job, searches: readonly Search[]): { artifacts: Artifact[]; tooLong: number } {
  const found = (KINDS[job.artifact]?.extract ?? (() => []))(searches, job.domains);
  let artifacts = found.filter(fits);
  if (!perArtifact(job.policy)) artifacts = distinct(artifacts);
  if (job.recent) artifacts.reverse();
  return { artifacts, tooLong: found.filter((one) => one.text !== "" && !fits(one)).length };
}

/** What the job takes of a log that it has taken nothing of. */
export function candidates(job: Job, searches: readonly Search[]): Artifact[] {
  return usable(job, searches).artifacts.slice(0, job.policy.per_user);
}

/** What it takes after these texts were considered. */
export function further(job: Job, searches: readonly Search[], considered: readonly string[], struck: ReadonlySet<string>): Artifact[] {
  return left(job, searches, considered, struck).slice(0, room(job, considered));
}

/** How much more there is than it takes of one member. */
export function beyond(job: Job, searches: readonly Search[], considered: readonly string[], struck: ReadonlySet<string>): number {
  return Math.max(0, left(job, searches, considered, struck).length - room(job, considered));
}

function room(job: Job, considered: readonly string[]): number {
  return Math.max(0, job.policy.per_user - considered.length);
}

/** What was not considered yet: instances count under FT_a and DP_a, else each text once. */
function left(job: Job, searches: readonly Search[], considered: readonly string[], struck: ReadonlySet<string>): Artifact[] {
  const before = new Map<string, number>();
  for (const text of considered) before.set(text, (before.get(text) ?? 0) + 1);
  return usable(job, searches).artifacts.filter(({ text }) => {
    const times = before.get(text) ?? 0;
    if (times > 0 && perArtifact(job.policy)) before.set(text, times - 1);
    return times === 0 && !struck.has(text);
  });
}

/** Whether a user sends an artifact: always, but under ST_u as the coin of user, job and artifact falls. */
export function sends(job: Job, user: Uint8Array, text: string): boolean {
  return job.policy.name !== "ST_u" || heads(coin(user, unhex(job.id), text), job.policy.p);
}
