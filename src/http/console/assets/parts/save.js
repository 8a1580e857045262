// Saving a file that the page has fetched.

// Lifetime of the URL of a download, which has started by then.
const URL_LIFETIME_MS = 60000;

export function saveFile(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = Object.assign(document.createElement('a'), { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), URL_LIFETIME_MS);
}
