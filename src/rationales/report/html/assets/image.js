// Images: one slider for the heat map's opacity, one for the threshold; the score under the pointer or the keys.
(() => {
  const tip = document.querySelector(".tip");
  const LONGEST = 768;  // pixels of the canvas; image_view.py has the same number

  async function greys(address) {  // the image's size and its red channel, which is its grey
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.naturalWidth;
    canvas.height = image.naturalHeight;
    const pen = canvas.getContext("2d", {willReadFrequently: true});
    pen.drawImage(image, 0, 0);
    const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
    return {width: canvas.width, height: canvas.height, values: Uint8Array.from({length: pixels.length / 4}, (_, i) => pixels[4 * i])};
  }

  function enlarged(image, factor) {  // every pixel becomes a square
    const width = image.width * factor, height = image.height * factor, values = new Uint8Array(width * height);
    for (let y = 0, i = 0; y < height; y++) {
      const row = Math.floor(y / factor) * image.width;
      for (let x = 0; x < width; x++) values[i++] = image.values[row + Math.floor(x / factor)];
    }
    return {width, height, values};
  }

  async function start(article) {
    const data = JSON.parse(article.querySelector("script[type='application/json']").textContent);
    const images = await Promise.all([data.scores, data.rule_selection, ...(data.stops ? [data.entered] : [])].map(greys));
    const factor = Math.max(1, Math.floor(LONGEST / Math.max(images[0].width, images[0].height)));
    const [scores, ruleSelection, entered] = images.map(image => enlarged(image, factor));
    const probabilities = shared.probabilities(article, data);
    const {width, height} = scores;
    const view = article.querySelector(".view"), photo = view.querySelector(".photo"), mark = view.querySelector(".here");
    const opacity = article.querySelector(".opacity"), cut = article.querySelector(".cut");
    const cutout = article.querySelector(".cutout"), reset = article.querySelector(".reset");
    const output = article.querySelector("output"), ruleText = output.textContent;
    const total = data.width * data.height, home = cut.defaultValue;
    const canvas = document.createElement("canvas");
    canvas.width = width;
    canvas.height = height;
    const pen = canvas.getContext("2d"), sheet = pen.createImageData(width, height);
    const paint = new Uint32Array(sheet.data.buffer), bytes = new Uint8ClampedArray(4), word = new Uint32Array(bytes.buffer);
    const chosen = new Uint8Array(width * height);
    await photo.decode();
    pen.drawImage(photo, 0, 0, width, height);
    const colours = new Uint32Array(pen.getImageData(0, 0, width, height).data.buffer);  // of the photograph
    const score = Array.from({length: 256}, (_, grey) => data.lowest + (data.highest - data.lowest) * grey / 255);

    const number = value => data.keeps ? value.toFixed(2) : String(Number(value.toPrecision(3)));
    const percent = shared.percent;

    function colour(red, green, blue, alpha) {  // as the canvas stores it
      bytes[0] = red; bytes[1] = green; bytes[2] = blue; bytes[3] = 255 * alpha;
      return word[0];
    }

    function threshold() {
      if (cut.value === home) return data.start;
      return data.stops ? data.stops[cut.value].threshold : data.low + (data.high - data.low) * cut.value / cut.max;
    }

    function select() {
      if (cut.value === home) {
        for (let i = 0; i < chosen.length; i++) chosen[i] = ruleSelection.values[i] ? 1 : 0;
      } else if (data.stops) {
        for (let i = 0; i < chosen.length; i++) chosen[i] = entered.values[i] > cut.value ? 1 : 0;
      } else {
        const cutoff = threshold(), table = score.map(value => value > cutoff ? 1 : 0);
        for (let i = 0; i < chosen.length; i++) chosen[i] = table[scores.values[i]];
      }
    }

    function draw() {
      const heat = opacity.value / 100, only = cutout.getAttribute("aria-pressed") === "true";
      const shades = Uint32Array.from(data.colours, (rgb, grey) => colour(...rgb, heat * data.opacity[grey]));
      const white = colour(255, 255, 255, 1), black = colour(0, 0, 0, .6), veil = colour(data.pale, data.pale, data.pale, data.fade);
      for (let y = 0, i = 0; y < height; y++) {
        for (let x = 0; x < width; x++, i++) {
          const here = chosen[i];
          if (only) { paint[i] = here ? colours[i] : veil; continue; }
          const edge = (x > 0 && chosen[i - 1] !== here) || (x < width - 1 && chosen[i + 1] !== here)
            || (y > 0 && chosen[i - width] !== here) || (y < height - 1 && chosen[i + width] !== here);
          paint[i] = !edge ? shades[scores.values[i]] : here ? white : black;
        }
      }
      pen.putImageData(sheet, 0, 0);
      photo.style.filter = only ? "grayscale(1)" : `grayscale(${heat}) brightness(${1 - data.dim * heat})`;
    }

    function update() {
      const atHome = cut.value === home, words = number(threshold());
      select();
      draw();
      const stop = data.stops && data.stops[cut.value];  // a selection whose probabilities are known
      const pixels = stop ? stop.selected : data.counts[cut.value];
      output.textContent = atHome ? ruleText
        : `${percent(pixels / total)} of the image · ${pixels.toLocaleString("en")} of ${total.toLocaleString("en")} pixel${total === 1 ? "" : "s"}`;
      article.querySelector(".threshold").textContent = words;
      cut.setAttribute("aria-valuetext", words);
      article.querySelector(".percents").textContent = `${opacity.value} %`;
      opacity.setAttribute("aria-valuetext", `${opacity.value} %`);
      probabilities.select(pixels);
      if (stop) probabilities.show(atHome ? null : stop); else article.classList.toggle("moved", !atHome);
      reset.disabled = atHome;
    }

    function tell(x, y) {  // x and y: shares of the width and the height
      const column = Math.min(Math.floor(x * width), width - 1), row = Math.min(Math.floor(y * height), height - 1);
      const i = row * width + column, box = canvas.getBoundingClientRect();
      const position = `column ${Math.floor(x * data.width)}, row ${Math.floor(y * data.height)}`;
      tip.textContent = `${number(score[scores.values[i]])}${chosen[i] ? ", in the rationale" : ""} · ${position}`;
      tip.hidden = false;
      const left = box.left + x * box.width - tip.offsetWidth / 2, above = box.top + y * box.height - tip.offsetHeight - 14;
      const kept = Math.min(Math.max(8, left), innerWidth - tip.offsetWidth - 8);
      tip.style.transform = `translate(${kept}px, ${above > 4 ? above : box.top + y * box.height + 18}px)`;
    }

    function hush() { tip.hidden = true; }

    let waiting = false;
    function soon() {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; update(); });
    }

    for (const slider of [opacity, cut]) slider.addEventListener("input", soon);
    reset.addEventListener("click", () => { cut.value = home; update(); cut.focus(); });
    cutout.addEventListener("click", () => {
      cutout.setAttribute("aria-pressed", String(cutout.getAttribute("aria-pressed") !== "true"));
      draw();
    });

    canvas.addEventListener("pointermove", event => {
      const box = canvas.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width, y = (event.clientY - box.top) / box.height;
      if (x >= 0 && y >= 0 && x < 1 && y < 1) tell(x, y); else hush();
    });
    canvas.addEventListener("pointerleave", hush);

    let column = Math.floor(data.width / 2), row = Math.floor(data.height / 2);
    view.addEventListener("keydown", event => {
      if (event.key === "Escape") { hush(); mark.hidden = true; }
      const step = event.shiftKey ? 1 : Math.max(1, Math.round(Math.max(data.width, data.height) / 40));
      const by = {ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step]}[event.key];
      if (!by || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      if (!mark.hidden) {  // the first key only shows where one is
        column = Math.min(Math.max(column + by[0], 0), data.width - 1);
        row = Math.min(Math.max(row + by[1], 0), data.height - 1);
      }
      const x = (column + .5) / data.width, y = (row + .5) / data.height;
      mark.hidden = false;
      mark.style.left = `${100 * x}%`;
      mark.style.top = `${100 * y}%`;
      tell(x, y);
    });
    view.addEventListener("blur", () => { hush(); mark.hidden = true; });

    cut.value = home;  // browsers restore the last position on reload
    opacity.value = opacity.defaultValue;
    photo.after(canvas);
    article.classList.add("seen");
    update();
  }

  for (const article of document.querySelectorAll("article.image")) shared.when(article, start);
})();
