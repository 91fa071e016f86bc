// A file that the server made in memory is saved by the browser.
watch("value", () => {
  if (!props.value) return;
  const file = JSON.parse(props.value);
  const bytes = Uint8Array.from(atob(file.content), character => character.charCodeAt(0));
  const address = URL.createObjectURL(new Blob([bytes], {type: file.type}));
  const link = document.createElement("a");
  link.href = address;
  link.download = file.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
});
