// Jobs: what is asked, exactly what would be sent, the owner's answer, and what was sent.

import { type Artifact, BETWEEN } from "../core/artifacts.js";
import { Client, type Decided, type Preview } from "../core/client.js";
import type { Member } from "../core/community.js";
import { isOpen, type Job, spelling, wordsOf } from "../core/jobs.js";
import { type Answer, consent, type Database, entries, outgoing, type Outgoing, type Run, settings, strike, struck } from "../core/store.js";
import { ask, button, byId, element, inTurn, page, problem, say, t, when } from "./page.js";

const AGAIN = 2_000; // milliseconds, while something is on its way
const ANSWERS: readonly Answer[] = ["ask", "always", "never"];

/** An artifact for people: its fields, where there are several. */
function readable(text: string): string {
  return text.split(BETWEEN).join("  →  ");
}

function host(url: string): string {
  return new URL(url).host;
}

function title(job: Job): string {
  return t(`job_title_${job.artifact.replace("-", "_")}`);
}

function terms(job: Job, { community }: Member): HTMLElement {
  const words = wordsOf(job, t);
  const relays = community.relays.map((one) => host(one.url)).join(", ");
  const rows: [string, string][] = [
    [t("job_leaves"), words.leaves],
    [t("job_whom"), t("job_whom_text", host(community.server), relays, host(community.randomness))],
    [t("job_opens"), words.opens],
    [t("job_public"), words.public],
    [t("job_promise"), words.promise],
  ];
  return element("dl", {}, ...rows.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)]));
}

/** The question: the artifacts with a tick each, and three answers. */
function question(database: Database, job: Job, preview: Preview, out: ReadonlySet<string>, again: () => Promise<void>): HTMLElement[] {
  const { sent, kept, beyond, tooLong } = preview;
  if (sent.length + kept.length === 0) return [element("p", {}, t("job_no_candidates"))];
  let written: Promise<unknown> = Promise.resolve();
  const legend = element("legend");
  const count = (): void => {
    legend.textContent = t("job_exactly", String(boxes.filter((box) => box.checked).length));
  };
  const boxes = sent.map((one) => {
    const tick = (): void => {
      // A text that stands there several times has one answer.
      for (const [i, other] of sent.entries()) if (other.text === one.text) (boxes[i] as HTMLInputElement).checked = box.checked;
      count();
      written = written.then(() => strike(database, job.id, one.text, !box.checked));
    };
    const box = element("input", { type: "checkbox", checked: !out.has(one.text), change: tick });
    return box;
  });
  // Where a job wants spellings, these go out too.
  const typed = (one: Artifact): (Node | string)[] => {
    const kept = spelling(job, one.typed);
    return kept === "" || kept === one.text ? [] : [element("span", { class: "quiet" }, ` ${t("job_typed", readable(kept))}`)];
  };
  const items = sent.map((one, i) => element("li", {}, element("label", {}, boxes[i] as HTMLInputElement, " ", readable(one.text), ...typed(one))));
  const decide = async (answer: Answer): Promise<void> => {
    const seen: Decided[] = [
      ...sent.map((one, i) => ({ ...one, struck: !(boxes[i] as HTMLInputElement).checked })),
      ...kept.map((one) => ({ ...one, struck: false })),
    ];
    await written;
    const trouble = await ask({ type: "agree", job: job.id, answer, seen });
    await again();
    say(trouble === "" ? "" : problem(trouble));
  };
  count();
  const list = element("fieldset", {}, legend, element("ul", { class: "artifacts" }, ...items));
  return [
    sent.length > 0 ? list : element("p", {}, t("job_nothing")),
    ...(kept.length > 0 ? [folded(t("job_kept", String(kept.length)), kept.map((one) => one.text))] : []),
    ...(beyond > 0 ? [element("p", { class: "quiet" }, t("job_beyond", String(beyond)))] : []),
    ...(tooLong > 0 ? [element("p", { class: "quiet" }, t("job_too_long", String(tooLong)))] : []),
    element("p", { class: "actions" }, button(t("job_send"), () => decide("ask"), { class: "primary" }), button(t("job_always"), () => decide("always"))),
  ];
}

function folded(summary: string, texts: readonly string[]): HTMLElement {
  const items = texts.map((text) => element("li", {}, readable(text)));
  return element("details", {}, element("summary", {}, summary), element("ul", { class: "artifacts" }, ...items));
}

function progress(run: Run, rows: readonly Outgoing[], answer: Answer): string {
  const delivered = rows.filter((row) => row.sent !== null).length;
  if (run.state === "done") return t("run_done", String(delivered), String(rows.filter((row) => row.unsent !== "").length));
  if (answer === "never") return t("run_stopped");
  if (run.trouble !== "") return t("run_trouble", problem(run.trouble), when(run.next));
  if (run.state === "asking") return t("run_asking");
  if (run.sendAfter > Date.now()) return t("run_waiting", when(run.sendAfter));
  const waiting = rows.filter((row) => row.report !== null).length;
  return t("run_sending", String(delivered), String(delivered + waiting));
}

function answers(job: Job, answer: Answer, ran: boolean, change: (answer: Answer) => unknown): HTMLElement {
  const select = element("select", { change: () => change(select.value as Answer) });
  // Always begins with a first time, whose artifacts were seen.
  for (const one of ANSWERS) if (one !== "always" || ran) select.append(element("option", { value: one }, t(`answer_${one}`)));
  select.value = answer;
  return element("p", {}, element("label", { class: "field", "data-job": job.id }, t("job_answer"), select));
}

async function article(database: Database, client: Client, member: Member, job: Job, again: () => Promise<void>): Promise<HTMLElement> {
  const [answer, run, rows] = [await consent(database, job.id), await database.get("run", job.id), await outgoing(database, job.id)];
  const open = isOpen(job, Date.now() / 1000);
  const going = run !== undefined && run.state !== "done";
  const parts: HTMLElement[] = [
    element("h2", {}, title(job)),
    element("p", { class: "quiet" }, t("job_until", when(job.expires * 1000), job.policy.name, job.id.slice(0, 8))),
    terms(job, member),
  ];
  if (run !== undefined) parts.push(element("p", { class: "progress", role: "status" }, progress(run, rows, answer)));
  if (run !== undefined && going && run.trouble !== "" && answer !== "never") {
    parts.push(
      button(t("try_now"), async () => {
        await ask({ type: "retry", job: job.id });
        await again();
      }),
    );
  }
  if (!open) parts.push(element("p", {}, t("job_over")));
  else if (!going && answer !== "never") parts.push(...question(database, job, await client.preview(job), await struck(database, job.id), again));
  const change = async (chosen: Answer): Promise<void> => {
    await client.answer(job.id, chosen);
    await ask({ type: "work" });
    await again();
  };
  if (open) parts.push(answers(job, answer, run !== undefined, change));
  return element("article", { "data-job": job.id, "aria-label": title(job) }, ...parts);
}

function history(rows: readonly Outgoing[], jobs: readonly Job[]): void {
  const names = new Map(jobs.map((job) => [job.id, `${title(job)}, ${job.id.slice(0, 8)}`]));
  const told = rows.filter((row) => row.heads || row.struck || row.unsent !== "").sort((one, other) => other.id - one.id);
  const state = (row: Outgoing): string => {
    if (row.sent !== null) return t("state_sent", when(row.sent));
    if (row.unsent !== "") return t("state_unsent", problem(row.unsent));
    return t(row.struck ? "state_struck" : "state_waiting");
  };
  const heads = ["column_artifact", "column_job", "column_state"];
  const body = told.map((row) => {
    const cells = [row.artifact === "" ? t("text_deleted") : readable(row.artifact), names.get(row.job) ?? row.job.slice(0, 8), state(row)];
    return element("tr", {}, ...cells.map((cell, i) => element("td", { "data-label": t(heads[i] as string) }, cell)));
  });
  const headings = heads.map((key) => element("th", { scope: "col" }, t(key)));
  const table = element(
    "table",
    {},
    element("caption", {}, t("history_caption")),
    element("thead", {}, element("tr", {}, ...headings)),
    element("tbody", {}, ...body),
  );
  byId("history").replaceChildren(told.length > 0 ? table : element("p", {}, t("history_none")));
}

/** What a keyboard can be at in the article of a job, and is called as this one is. */
function called(job: string | null, one: Element): HTMLElement[] {
  const name = (control: Element): string => control.tagName + (control.closest("label") ?? control).textContent;
  const there = [...document.querySelectorAll<HTMLElement>("article[data-job] :is(input, button, select, summary)")];
  return there.filter((other) => other.closest("article")?.getAttribute("data-job") === job && name(other) === name(one));
}

/** Draw the jobs anew; a keyboard stays where it was. */
function redraw(...drawing: HTMLElement[]): void {
  const focused = document.activeElement;
  const within = focused?.closest("article[data-job]") ?? null;
  const job = within === null ? null : within.getAttribute("data-job");
  const place = focused === null || within === null ? -1 : called(job, focused).indexOf(focused as HTMLElement);
  byId("jobs").replaceChildren(...drawing);
  if (focused !== null && place >= 0) called(job, focused)[place]?.focus({ preventScroll: true });
}

/** What a drawing of the page depends on: nothing that is being ticked is drawn anew without need. */
let drawn = "";

const show = inTurn(async (database: Database, client: Client): Promise<void> => {
  const member = await client.member();
  const again = async (): Promise<void> => {
    drawn = "";
    await show(database, client);
  };
  const [trouble, looked, { paused }] = [await database.get("setting", "problem"), await database.get("setting", "refreshed"), await settings(database)];
  const rows = (await database.getAll("outbox")) as Outgoing[];
  const jobs = await client.jobs();
  const told = rows.map((row) => [row.id, row.sent, row.unsent, row.artifact === ""]);
  const searches = (await entries(database)).map((one) => [one.id, one.url]); // a click changes the row of its search
  const now = Math.floor(Date.now() / 60_000); // a job may end meanwhile
  const state = JSON.stringify([trouble, paused, await database.getAll("consent"), await database.getAll("run"), jobs.map((job) => [job.id, isOpen(job, now * 60)]), searches, told]);
  byId("looked").textContent = typeof looked === "number" ? t("jobs_looked", when(looked)) : "";
  if (state === drawn) return;
  drawn = state;
  byId("problem").textContent = [typeof trouble === "string" && trouble !== "" ? problem(trouble) : "", paused ? t("jobs_paused") : ""].join(" ").trim();
  const articles = member === null ? [] : await Promise.all(jobs.map((job) => article(database, client, member, job, again)));
  const nothing = member === null ? element("p", {}, element("a", { href: "settings.html" }, t("jobs_join"))) : element("p", {}, t("jobs_none"));
  redraw(...(articles.length > 0 ? articles : [nothing]));
  byId<HTMLButtonElement>("look").disabled = member === null;
  history(rows, jobs);
});

let client: Client | null = null;

void page(async (database) => {
  if (client !== null) return show(database, client);
  // Pages read; what needs the network is the worker's.
  const own = (client = new Client(database, { json: refuse, post: refuse }));
  byId("look").onclick = async () => {
    await ask({ type: "refresh" });
    drawn = "";
    await show(database, own);
  };
  setInterval(() => void show(database, own), AGAIN);
  return show(database, own);
});

function refuse(): Promise<never> {
  return Promise.reject(new Error("pages send nothing"));
}
