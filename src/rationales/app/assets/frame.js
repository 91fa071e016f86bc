
// Inside a frame: tells the page around how high this one is.
(() => {
  const measured = document.body;
  const tellHeight = () => parent.postMessage({rationalesHeight: Math.ceil(measured.getBoundingClientRect().height)}, "*");
  new ResizeObserver(tellHeight).observe(measured);
  tellHeight();
})();
