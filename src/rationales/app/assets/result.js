// The frame of a result is as high as what it shows.
window.addEventListener("message", event => {
  const frame = element.querySelector("iframe");
  const height = event.data && event.data.rationalesHeight;
  if (!frame || event.source !== frame.contentWindow || !Number.isFinite(height)) return;
  frame.style.height = `${Math.min(Math.max(height, 40), 200000)}px`;
});
