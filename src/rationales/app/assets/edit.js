// Edit and see: words are switched off by clicking, regions and moments by drawing over them.
// What is off is kept in the elements themselves, so that a new input begins with nothing taken out.
let waiting = 0;

function removedParts() {
  const brush = element.querySelector(".brush");
  if (brush) return [...(brush.off || [])];
  return [...element.querySelectorAll('[data-part][aria-pressed="true"]')].map(word => Number(word.dataset.part));
}

function tell() {  // the server is asked when the hand rests
  clearTimeout(waiting);
  waiting = setTimeout(() => trigger("edit", {removed: removedParts()}), 120);
}

function put(parts) {
  const off = new Set(parts), brush = element.querySelector(".brush");
  for (const word of element.querySelectorAll("[data-part]")) word.setAttribute("aria-pressed", String(off.has(Number(word.dataset.part))));
  if (brush) {
    brush.off = off;
    draw(brush);
  }
  tell();
}

element.addEventListener("click", event => {
  const word = event.target.closest("[data-part]"), action = event.target.closest("[data-parts]");
  if (action) return put(action.dataset.parts.split(",").filter(Boolean).map(Number));
  if (!word) return;
  enter(word);
  toggle(word);
});

// Words are spans, since a button is laid out as a box and breaks the order of mixed writing directions. One of them
// is reached with the tabulator, the others with the arrow keys.
function toggle(word) {
  word.setAttribute("aria-pressed", String(word.getAttribute("aria-pressed") !== "true"));
  tell();
}

function enter(word) {
  for (const other of element.querySelectorAll('[data-part][tabindex="0"]')) other.tabIndex = -1;
  word.tabIndex = 0;
  word.focus();
}

element.addEventListener("keydown", event => {
  const word = event.target.closest("[data-part]");
  if (!word) return;
  const words = [...element.querySelectorAll("[data-part]")], place = words.indexOf(word);
  const forward = getComputedStyle(word.parentElement).direction === "rtl" ? -1 : 1;
  const step = {ArrowRight: forward, ArrowLeft: -forward, ArrowDown: 1, ArrowUp: -1}[event.key];
  if (event.key === " " || event.key === "Enter") toggle(word);
  else if (step) enter(words[Math.min(Math.max(place + step, 0), words.length - 1)]);
  else return;
  event.preventDefault();
});

// Cells over an image or a sound.
let drawing = null, cursor = 0;

function shape(brush) { return [Number(brush.dataset.rows), Number(brush.dataset.columns)]; }

function draw(brush) {
  const [rows, columns] = shape(brush), canvas = brush.querySelector("canvas");
  const scale = 16, pen = canvas.getContext("2d");
  canvas.width = columns * scale;
  canvas.height = rows * scale;
  const style = getComputedStyle(brush);
  pen.fillStyle = style.getPropertyValue("--removed") || "#999";
  for (const part of brush.off) pen.fillRect((part % columns) * scale, Math.floor(part / columns) * scale, scale, scale);
  if (document.activeElement === brush && brush.matches(":focus-visible")) {
    pen.strokeStyle = style.getPropertyValue("--cursor") || "#000";
    pen.lineWidth = 3;
    pen.strokeRect((cursor % columns) * scale + 1.5, Math.floor(cursor / columns) * scale + 1.5, scale - 3, scale - 3);
  }
}

function prepare() {
  const brush = element.querySelector(".brush");
  if (!brush || brush.querySelector("canvas")) return;
  drawing = null;
  cursor = 0;
  brush.off = new Set();
  brush.append(document.createElement("canvas"));
  draw(brush);
  for (const name of ["focus", "blur"]) brush.addEventListener(name, () => draw(brush));
}

function paint(brush, event) {
  const [rows, columns] = shape(brush), box = brush.getBoundingClientRect();
  const x = Math.floor(columns * (event.clientX - box.left) / box.width), y = Math.floor(rows * (event.clientY - box.top) / box.height);
  if (x < 0 || y < 0 || x >= columns || y >= rows) return;
  const off = brush.off;
  const reach = event.pointerType === "touch" || rows > 1 ? 1 : 0;  // of an image a cross of five cells at once
  if (drawing === null) drawing = !off.has(y * columns + x);
  for (let down = -reach; down <= reach; down++) for (let across = -reach; across <= reach; across++) {
    if (Math.abs(down) + Math.abs(across) > 1) continue;
    const row = y + down, column = x + across;
    if (row < 0 || column < 0 || row >= rows || column >= columns) continue;
    if (drawing) off.add(row * columns + column); else off.delete(row * columns + column);
  }
  draw(brush);
}

element.addEventListener("pointerdown", event => {
  const brush = event.target.closest(".brush");
  if (!brush) return;
  event.preventDefault();
  brush.setPointerCapture(event.pointerId);
  drawing = null;
  paint(brush, event);
});
element.addEventListener("pointermove", event => {
  const brush = event.target.closest(".brush");
  if (brush && event.buttons) paint(brush, event);
});
element.addEventListener("pointerup", event => { if (event.target.closest(".brush")) tell(); });
element.addEventListener("keydown", event => {
  const brush = event.target.closest(".brush");
  if (!brush) return;
  const [rows, columns] = shape(brush), row = Math.floor(cursor / columns), column = cursor % columns;
  const to = {ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column], ArrowDown: [row + 1, column]}[event.key];
  if (event.key === " " || event.key === "Enter") {
    if (!brush.off.delete(cursor)) brush.off.add(cursor);
    tell();
  } else if (!to) return;
  event.preventDefault();
  if (to) cursor = Math.min(Math.max(to[0], 0), rows - 1) * columns + Math.min(Math.max(to[1], 0), columns - 1);
  draw(brush);
});
watch("value", prepare);
prepare();
