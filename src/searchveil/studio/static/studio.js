// What htmx does not do: copy a command, and say when the studio does not answer.
const status = document.getElementById("status");

function say(text) {
  status.textContent = text;
  window.setTimeout(() => { status.textContent = ""; }, 6000);
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = button.closest(".copyable").querySelector("code").textContent;
  try {
    await navigator.clipboard.writeText(text);
    say(document.body.dataset.copied);
  } catch {
    const range = document.createRange();
    range.selectNodeContents(button.closest(".copyable").querySelector("code"));
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }
});

for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(name, () => say(document.body.dataset.lost));
}

// What a draft's answer replaces keeps the parts that a person has opened.
document.addEventListener("htmx:beforeSwap", (event) => {
  const open = event.detail.target?.matches?.("details.code") && event.detail.target.open;
  if (open) document.body.dataset.codeOpen = "yes";
});
document.addEventListener("htmx:afterSettle", () => {
  const code = document.querySelector("details.code");
  if (code && document.body.dataset.codeOpen) code.open = true;
});
document.addEventListener("toggle", (event) => {
  if (!event.target.matches("details.code")) return;
  if (event.target.open) document.body.dataset.codeOpen = "yes";
  else if (event.isTrusted && document.contains(event.target)) delete document.body.dataset.codeOpen;
}, true);
