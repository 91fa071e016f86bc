"use strict";
// Shared by texts and images: formatted numbers, and the probabilities of the displayed selection.
const shared = (() => {
  function percent(share) {
    if (share > 0 && share < 0.001) return "< 0.1 %";
    return share > 0.999 && share < 1 ? "> 99.9 %" : `${(100 * share).toFixed(1)} %`;
  }

  // Bidirectional control characters as code points, since they would reorder the text around them.
  function visible(text) {
    return text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
      control => `<U+${control.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
  }

  function probabilities(article, data) {  // returns functions that show the probabilities of one stop of the slider
    const keys = ["rationale", "complement"];
    const classes = article.querySelector(".classes tbody");
    const button = article.querySelector(".all button");
    let displayed = data.probabilities;

    function fill() {  // the table of all classes
      if (!classes) return;
      [...classes.rows].forEach((row, label) => {
        for (const cell of row.cells) if (displayed[cell.className]) cell.textContent = percent(displayed[cell.className][label]);
      });
    }

    function row(label) {
      const line = document.createElement("tr"), name = document.createElement("th");
      name.scope = "row";
      name.textContent = visible(data.labels[label]);
      line.append(name);
      for (const cell of [...classes.rows[0].cells].slice(1)) {
        const copy = document.createElement("td");
        copy.className = cell.className;
        line.append(copy);
      }
      return line;
    }

    if (button) button.addEventListener("click", () => {
      for (let label = classes.rows.length; label < data.labels.length; label++) classes.append(row(label));
      const left = document.createElement("span");
      left.textContent = data.hidden ? `${data.hidden.toLocaleString("en")} more classes stay below 0.1 % throughout.` : "These are all classes.";
      button.replaceWith(left);
      classes.closest(".wide").classList.add("tall");
      fill();
    });

    function show(stop) {
      displayed = stop ? {...data.probabilities, rationale: stop.rationale, complement: stop.complement} : data.probabilities;
      for (const key of keys) {
        if (!displayed[key]) continue;
        const value = displayed[key][data.target], line = article.querySelector(`.of .${key}`);
        const number = article.querySelector(`.result .${key}`);
        if (number) number.textContent = percent(value);
        if (!line) continue;
        line.querySelector(".value").textContent = percent(value);
        line.querySelector("rect").setAttribute("width", (100 * value).toFixed(1));
        const rival = line.querySelector(".rival");
        if (rival) rival.textContent = percent(displayed[key][data.rival]);
      }
      fill();
    }

    function select(count) {  // the sentence for a selection of `count` units
      for (const [name, visible] of [["some", count > 0], ["nothing", count === 0]]) {
        const words = article.querySelector(`.result .${name}`);
        if (words) words.hidden = !visible;
      }
    }

    return {show, select};
  }

  const waiting = new Map();
  const observer = new IntersectionObserver(entries => {
    for (const {isIntersecting, target} of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      waiting.get(target)(target);
    }
  }, {rootMargin: "100%"});

  const many = document.querySelectorAll("article").length > 20;

  function when(article, start) {  // at once; with many articles only when they come near the viewport
    if (!many) return start(article);
    waiting.set(article, start);
    observer.observe(article);
  }

  return {percent, visible, probabilities, when};
})();

// The index: hides the lines, and their articles, that do not contain the words in the filter box.
(() => {
  const box = document.querySelector(".filter");
  if (!box) return;
  const lines = [...document.querySelectorAll("nav li")].map(line => ({
    line,
    words: line.textContent.toLowerCase(),
    article: document.getElementById(line.querySelector("a").getAttribute("href").slice(1)),
  }));
  const matches = document.querySelector(".matches");

  function filter() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const entry of lines) {
      const matching = words.every(word => entry.words.includes(word));
      entry.line.hidden = entry.article.hidden = !matching;
      count += matching;
    }
    matches.textContent = words.length ? `${count.toLocaleString("en")} of ${lines.length.toLocaleString("en")}` : "";
  }

  box.value = "";  // browsers restore what was typed on reload
  box.addEventListener("input", filter);
})();

