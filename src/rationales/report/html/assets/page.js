// The slider selects units by score; hovering or the arrow keys show the score of a unit.
(() => {
  const tip = document.querySelector(".tip");

  function tell(unit, message) {
    tip.textContent = message;
    tip.hidden = false;
    const box = unit.getClientRects()[0] || unit.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left + box.width / 2 - tip.offsetWidth / 2), innerWidth - tip.offsetWidth - 8);
    const above = box.top - tip.offsetHeight - 8;
    tip.style.transform = `translate(${left}px, ${above > 4 ? above : box.bottom + 8}px)`;
  }

  function hush() { tip.hidden = true; }

  function count(number, noun) { return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`; }

  function start(article) {
    const data = JSON.parse(article.querySelector("script[type='application/json']").textContent);
    const units = [...article.querySelectorAll(".text > :not(i)")];
    const unitIndex = new Map(units.map((unit, index) => [unit, index]));
    const texts = units.map(unit => unit.parentNode);
    const ruleSelection = units.map(unit => unit.classList.contains("in"));
    const slider = article.querySelector("input.cut");
    const probabilities = shared.probabilities(article, data);
    const home = slider.defaultValue;
    const level = article.querySelector(".level");
    const reset = article.querySelector(".reset");
    const list = article.querySelector(".spans");
    let chosen = ruleSelection;
    let here = -1;

    const moment = index => Math.min(index * data.seconds, data.duration);
    const time = index => moment(index).toFixed(2);
    const content = (first, last) => {  // the time of a stretch of a sound, the words of a span of a text
      if (data.seconds) return `${time(first)} to ${time(last + 1)} s`;
      let words = units[first].textContent;
      for (let node = units[first]; node !== units[last]; node = node.nextSibling) words += node.nextSibling.textContent;
      return shared.visible(words);
    };
    const number = value => data.keeps ? value.toFixed(2) : String(Number(value.toPrecision(3)));

    function joined(selected, i) {  // unit i belongs to the same span as the one before it
      return i > 0 && selected[i] && selected[i - 1] && texts[i] === texts[i - 1];
    }

    function runs(selected) {
      const spans = [];
      for (let i = 0; i < units.length; i++) {
        if (!selected[i]) continue;
        if (joined(selected, i)) spans[spans.length - 1][1] = i; else spans.push([i, i]);
      }
      return spans;
    }

    function select(selected) {  // only units that change are updated; no element is moved
      for (let i = 0; i < units.length; i++) {
        const gap = units[i].previousSibling;
        if (gap && gap.nodeName === "I" && joined(selected, i) !== joined(chosen, i)) gap.classList.toggle("in");
        if (selected[i] !== chosen[i]) units[i].classList.toggle("in");
        const first = selected[i] && !joined(selected, i), last = selected[i] && !joined(selected, i + 1);
        if (first !== (chosen[i] && !joined(chosen, i))) units[i].classList.toggle("first");
        if (last !== (chosen[i] && !joined(chosen, i + 1))) units[i].classList.toggle("last");
      }
      chosen = selected;
    }

    function fill() {  // the list of spans, when it can be seen
      if (!list.open) return;
      const items = runs(chosen).slice(0, 200).map(([first, last]) => {
        const item = document.createElement("li"), score = document.createElement("b"), words = document.createElement("bdi");
        let sum = 0;
        for (let i = first; i <= last; i++) sum += data.scores[i];
        score.textContent = number(sum / (last - first + 1));
        words.textContent = content(first, last);
        item.append(score, " ", words);
        return item;
      });
      list.querySelector("ol").replaceChildren(...items);
    }

    function update() {
      const atHome = slider.value === home;
      const stop = data.stops && data.stops[slider.value];  // a selection whose probabilities are known
      const share = slider.value / slider.max;
      const threshold = atHome ? data.start : stop ? stop.threshold : data.low + (data.high - data.low) * share;
      select(atHome ? ruleSelection : stop ? data.entered.map(count => count > slider.value) : data.scores.map(score => score > threshold));
      const total = chosen.reduce((sum, isSelected) => sum + isSelected, 0);
      const words = `${total.toLocaleString("en")} of ${count(units.length, data.unit)}`;
      const spans = runs(chosen);
      const seconds = data.seconds ? `${spans.reduce((sum, [first, last]) => sum + moment(last + 1) - moment(first), 0).toFixed(2)} of ${data.duration.toFixed(2)} s · ` : "";
      article.querySelector("output").textContent = `${count(spans.length, "span")} · ${seconds}${words}`;
      fill();
      const shown = atHome && data.home ? data.home : number(threshold);  // no threshold selects spans
      article.querySelector(".threshold").textContent = shown;
      slider.setAttribute("aria-valuetext", shown);
      if (level) level.style.visibility = atHome && data.home ? "hidden" : "";
      const y = 100 * (data.high - threshold) / (data.high - data.low);
      if (level) for (const end of ["y1", "y2"]) level.setAttribute(end, Math.min(Math.max(y, 0), 100));
      probabilities.select(total);
      if (stop) probabilities.show(atHome ? null : stop); else article.classList.toggle("moved", !atHome);
      reset.disabled = atHome;
    }

    function describe(index) {
      tell(units[index], `${content(index, index)}: ${number(data.scores[index])}${chosen[index] ? ", in the rationale" : ""}`);
    }

    function go(index) {
      if (here >= 0) units[here].classList.remove("here");
      here = Math.min(Math.max(index, 0), units.length - 1);
      units[here].classList.add("here");
      units[here].scrollIntoView({block: "nearest"});
      describe(here);
    }

    function jump(step) {  // to the next or previous span, round the end
      const firsts = runs(chosen).map(run => run[0]);
      if (!firsts.length) return;
      const next = step > 0 ? firsts.find(first => first > here) : firsts.filter(first => first < here).pop();
      const index = next ?? (step > 0 ? firsts[0] : firsts[firsts.length - 1]);
      units[index].scrollIntoView({block: "center"});
      go(index);
    }

    const profile = article.querySelector(".profile");
    if (profile) profile.addEventListener("click", event => {  // scroll to the unit that was clicked in the profile
      const box = profile.getBoundingClientRect();
      const index = Math.min(Math.floor(units.length * (event.clientX - box.left) / box.width), units.length - 1);
      units[index].scrollIntoView({block: "center"});
      go(index);
    });

    let waiting = false;
    slider.addEventListener("input", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; update(); });
    });
    reset.addEventListener("click", () => { slider.value = home; update(); slider.focus(); });
    article.querySelector(".next").addEventListener("click", () => jump(1));
    article.querySelector(".previous").addEventListener("click", () => jump(-1));

    for (const text of article.querySelectorAll(".text")) {
      text.addEventListener("pointerover", event => {
        const index = unitIndex.get(event.target.closest(".text > *"));
        if (index === undefined) hush(); else describe(index);
      });
      text.addEventListener("pointerleave", hush);
      text.addEventListener("blur", () => {
        if (here >= 0) units[here].classList.remove("here");
        hush();
      });
      text.addEventListener("keydown", event => {
        const forward = getComputedStyle(text).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
        const backward = forward === "ArrowLeft" ? "ArrowRight" : "ArrowLeft";
        const first = texts.indexOf(text), last = texts.lastIndexOf(text);
        if (first < 0) return;
        const inside = here >= first && here <= last;
        const to = {[forward]: inside ? here + 1 : first, [backward]: inside ? here - 1 : last, Home: first, End: last}[event.key];
        if (event.key === "Escape") hush();
        if (to === undefined) return;
        event.preventDefault();
        go(Math.min(Math.max(to, first), last));
      });
    }
    list.addEventListener("toggle", fill);
    slider.value = home;  // browsers restore the last position on reload
    update();
  }

  for (const article of document.querySelectorAll("article:not(.image, .both)")) shared.when(article, start);
  addEventListener("scroll", hush, {passive: true});
})();
