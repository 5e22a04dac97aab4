// Settings: what is recorded and for how long, and the crowd that one is in.

import { RULES } from "../capture/rules.js";
import { hex, unhex } from "../core/bytes.js";
import { type Member, readCommunity } from "../core/community.js";
import { forgetOld } from "../core/record.js";
import { type Database, forgetEverything, leave as leaveCrowd, set, settings } from "../core/store.js";
import { userSecret } from "../core/tokens.js";
import { ask, button, byId, confirmed, element, page, problem, say, t } from "./page.js";

async function saved(): Promise<void> {
  say(t("settings_saved"));
  await ask({ type: "changed" });
}

async function fill(database: Database): Promise<void> {
  const now = await settings(database);
  byId<HTMLInputElement>("personal").checked = now.allowPersonal;
  byId<HTMLInputElement>("keep").value = String(now.keepDays);
  byId<HTMLInputElement>("wait").value = String(now.waitMinutes);
  byId("sites").textContent = t("settings_sites", RULES.map((rule) => rule.name).join(", "));
}

function listen(database: Database): void {
  const number = (id: string, name: "keepDays" | "waitMinutes", after: () => Promise<unknown>): void => {
    const input = byId<HTMLInputElement>(id);
    input.onchange = async () => {
      if (!input.reportValidity()) return;
      await set(database, name, input.valueAsNumber);
      await after();
      await saved();
    };
  };
  byId<HTMLInputElement>("personal").onchange = async (event) => {
    await set(database, "allowPersonal", (event.target as HTMLInputElement).checked);
    await saved();
  };
  number("keep", "keepDays", () => forgetOld(database, Date.now() / 1000));
  number("wait", "waitMinutes", () => Promise.resolve());
  byId("forget").onclick = async () => {
    if (!(await confirmed(t("confirm_forget"), t("settings_forget")))) return;
    await forgetEverything(database);
    await ask({ type: "changed" });
    location.reload();
  };
}

/** Firefox asks its own question before an extension may share anything; nobody else does. */
async function mayShare(): Promise<boolean> {
  const wanted = { data_collection: ["searchTerms", "browsingActivity"] };
  return location.protocol !== "moz-extension:" || chrome.permissions.request(wanted as chrome.permissions.Permissions);
}

async function join(database: Database): Promise<void> {
  const allowed = mayShare(); // before anything else: it must follow from the click
  const file = byId<HTMLInputElement>("community").files?.[0];
  const invitation = byId<HTMLInputElement>("invitation").value.trim().toLowerCase();
  try {
    if (!(await allowed)) throw new Error("refused_collection");
    const community = readCommunity((await file?.text()) ?? "");
    if (!/^[0-9a-f]{32}$/.test(invitation)) throw new Error("invitation");
    say(t("joining"));
    const secret = await userSecret(unhex(community.signer), invitation, byId<HTMLInputElement>("passphrase").value);
    const member: Member = { community, invitation, secret: hex(secret) };
    await database.put("setting", member, "member");
  } catch (error) {
    say(problem(error instanceof Error ? error.message : String(error)));
    return;
  }
  const trouble = await ask({ type: "refresh" });
  await show(database);
  say(trouble === "" ? "" : problem(trouble));
}

async function leave(database: Database): Promise<void> {
  if (!(await confirmed(t("confirm_leave"), t("leave")))) return;
  await leaveCrowd(database);
  await ask({ type: "changed" });
  await show(database);
}

async function show(database: Database): Promise<void> {
  const member = (await database.get("setting", "member")) as Member | undefined;
  byId("join").hidden = member !== undefined;
  const about = byId("member");
  about.hidden = member === undefined;
  if (member === undefined) return;
  const { name, server, randomness, relays } = member.community;
  about.replaceChildren(
    element("p", {}, element("strong", {}, t("joined", name))),
    element("p", { class: "quiet" }, t("joined_addresses", server, randomness, relays.map((one) => one.url).join(", "))),
    element("p", {}, element("a", { href: "jobs.html" }, t("menu_jobs")), " ", button(t("leave"), () => leave(database))),
  );
}

let listening = false;

void page(async (database) => {
  if (!listening) {
    listening = true;
    listen(database);
    byId("join").onsubmit = (event) => {
      event.preventDefault();
      void join(database);
    };
    await fill(database);
  }
  await show(database);
});
