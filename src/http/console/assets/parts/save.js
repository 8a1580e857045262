// Saving a file that the page has fetched.

const KEEP_MS = 60000;

export function saveFile(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = Object.assign(document.createElement('a'), { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), KEEP_MS);
}
