"use strict";
// One trial at a time. Time counts only while the page is visible. Answers are kept in this browser until they are
// downloaded or sent, so that closing the page loses nothing.
const settings = JSON.parse(document.getElementById("study").textContent);
const stored = `rationales-study-${settings.study}`; // of the person who started last; others have their own entry
const sections = new Map([...document.querySelectorAll(".trial")].map((section) => [section.dataset.trial, section]));
const progress = document.querySelector(".progress");
let state = { person: "", order: [], answers: [] };
let current = null, elapsed = 0, since = 0;

function storedState(person) {
  try {
    const before = JSON.parse(localStorage.getItem(`${stored}-${person}`));
    return before && before.order.length ? before : null;
  } catch { return null; /* no storage, or not readable */ }
}

function save() {
  try {
    localStorage.setItem(stored, state.person);
    localStorage.setItem(`${stored}-${state.person}`, JSON.stringify(state));
  } catch { /* private windows have no storage */ }
}

function shuffled(values) {
  const order = [...values];
  const random = crypto.getRandomValues(new Uint32Array(order.length));
  for (let last = order.length - 1; last > 0; last--) {
    const other = random[last] % (last + 1);
    [order[last], order[other]] = [order[other], order[last]];
  }
  return order;
}

function visibleSeconds() {
  return (elapsed + (document.hidden ? 0 : performance.now() - since)) / 1000;
}

function showNext() {
  const position = state.answers.length;
  if (current) current.hidden = true;
  if (position >= state.order.length) { finish(); return; }
  current = sections.get(state.order[position]);
  current.hidden = false;
  progress.hidden = false;
  progress.textContent = `Question ${position + 1} of ${state.order.length}`;
  elapsed = 0;
  since = performance.now();
  current.querySelector(".question").focus();
  window.scrollTo(0, 0);
}

function record() {
  const answer = {
    study: settings.study,
    person: state.person,
    trial: current.dataset.trial,
    seconds: Math.round(visibleSeconds() * 1000) / 1000,
    position: state.answers.length + 1,
  };
  if (settings.task === "compare") {
    answer.choice = current.querySelector("input:checked").value;
  } else {
    answer.marked = [...current.querySelectorAll('.word[aria-pressed="true"]')].map((word) => Number(word.dataset.unit));
  }
  state.answers.push(answer);
  save();
  showNext();
}

function lines() {
  return state.answers.map((answer) => JSON.stringify(answer)).join("\n") + "\n";
}

function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines()], { type: "application/x-ndjson" }));
  link.download = `answers-${settings.study}-${state.person.replace(/[^A-Za-z0-9_-]+/g, "_")}.jsonl`;
  document.body.append(link);
  link.click();
  link.remove();
}

async function finish() {
  progress.hidden = true;
  document.getElementById("end").hidden = false;
  const outcome = document.getElementById("outcome");
  const please = "Please download your answers and send the file to whoever gave you this page.";
  if (!location.protocol.startsWith("http")) { outcome.textContent = please; return; }
  try {
    const response = await fetch("answers", { method: "POST", body: lines(), headers: { "Content-Type": "application/x-ndjson" } });
    if (!response.ok) throw new Error(String(response.status));
    outcome.textContent = "Your answers have been sent.";
    localStorage.removeItem(stored);
    localStorage.removeItem(`${stored}-${state.person}`);
  } catch (error) {
    outcome.textContent = `Your answers could not be sent (${error.message}). ${please}`;
  }
}

function press(word, on) {
  word.setAttribute("aria-pressed", String(on));
  const section = word.closest(".trial");
  section.querySelector(".none").checked = false;
  allow(section);
}

function allow(section) {
  const answered = settings.task === "compare"
    ? section.querySelector("input:checked")
    : section.querySelector('.word[aria-pressed="true"], .none:checked');
  section.querySelector(".next").disabled = !answered;
}

for (const section of sections.values()) {
  section.querySelector(".next").addEventListener("click", record);
  section.addEventListener("change", (event) => {
    if (event.target.matches(".none:checked")) {
      for (const word of section.querySelectorAll(".word")) word.setAttribute("aria-pressed", "false");
    }
    allow(section);
  });
}

// A finger that moves up or down scrolls: the word below it is marked when it is lifted, or moves on to another word.
let drawing = null; // what the pointer sets words to while it is down
let touched = null; // the word below a finger that may still begin to scroll
document.addEventListener("pointerdown", (event) => {
  const word = event.target.closest?.(".word");
  if (!word) return;
  word.releasePointerCapture?.(event.pointerId);
  drawing = word.getAttribute("aria-pressed") !== "true";
  if (event.pointerType === "touch") touched = word; else press(word, drawing);
});
document.addEventListener("pointerover", (event) => {
  const word = event.target.closest?.(".word");
  if (!word || drawing === null || word === touched) return;
  if (touched) press(touched, drawing);
  touched = null;
  press(word, drawing);
});
document.addEventListener("pointerup", () => {
  if (touched) press(touched, drawing);
  drawing = touched = null;
});
document.addEventListener("pointercancel", () => { drawing = touched = null; });
document.addEventListener("keydown", (event) => {
  if (event.target.matches?.(".word") && (event.key === " " || event.key === "Enter")) {
    event.preventDefault();
    press(event.target, event.target.getAttribute("aria-pressed") !== "true");
    return;
  }
  if (!current || current.hidden || settings.task !== "compare" || event.ctrlKey || event.metaKey || event.altKey) return;
  const choice = current.querySelectorAll(".choices input")[Number(event.key) - 1];
  if (choice) { choice.checked = true; choice.focus(); allow(current); }
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) elapsed += performance.now() - since;
  since = performance.now();
});

document.getElementById("start").addEventListener("click", () => {
  const entered = document.getElementById("person").value.trim();
  const person = entered || `anonymous-${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}`;
  state = storedState(person) ?? { person, order: shuffled(settings.trials), answers: [] };
  document.getElementById("intro").hidden = true;
  save();
  showNext();
});
document.getElementById("download").addEventListener("click", download);

const code = document.getElementById("person");
function nameStart() {
  document.getElementById("start").textContent = storedState(code.value.trim()) ? "Continue" : "Start";
}
code.addEventListener("input", nameStart);
try { code.value = localStorage.getItem(stored) ?? ""; } catch { /* no storage */ }
nameStart();
