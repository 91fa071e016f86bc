// A file is read in the browser and becomes the value as a data URL with its name; the server stores no file.
const settings = () => element.querySelector(".upload").dataset;

function show(problem) {
  const value = props.value || "";
  const preview = element.querySelector(".preview"), label = element.querySelector(".name");
  preview.replaceChildren();
  element.querySelector(".upload").classList.toggle("filled", Boolean(value));
  element.querySelector(".clear").hidden = !value;
  label.textContent = problem || "";
  if (!value) return;
  const name = /^data:[^,]*;name=([^;,]*)/.exec(value);
  label.textContent = name ? decodeURIComponent(name[1]) : settings().noun;
  const {preview: tag} = settings();
  if (tag === "none") return;
  const media = document.createElement(tag);
  if (tag === "img") media.alt = label.textContent; else media.controls = true;
  media.src = value;
  preview.append(media);
}

function take(file) {
  if (!file) return;
  const most = Number(settings().bytes);
  if (file.size > most) {
    props.value = "";
    show(`${file.name} is larger than ${most / 1e6} MB, the limit of this server`);
    return;
  }
  const reader = new FileReader();
  reader.onload = () => {
    props.value = reader.result.replace(/^data:([^;,]*)[^,]*,/, (_, type) => `data:${type};name=${encodeURIComponent(file.name)};base64,`);
    show();
    trigger("change");
  };
  reader.readAsDataURL(file);
}

element.addEventListener("change", event => { if (event.target.matches("input")) take(event.target.files[0]); });
element.addEventListener("click", event => {
  if (!event.target.closest(".clear")) return;
  props.value = "";
  element.querySelector("input").value = "";
  show();
});
for (const name of ["dragover", "drop"]) element.addEventListener(name, event => {
  event.preventDefault();
  if (name === "drop") take(event.dataTransfer.files[0]);
});
watch("value", () => show());
show();
