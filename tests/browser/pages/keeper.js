// Keeps one line in OPFS the way the store's VFS does: through a synchronous access handle.
onmessage = async ({ data }) => {
  const folder = await navigator.storage.getDirectory();
  const handle = await (await folder.getFileHandle("kept", { create: true })).createSyncAccessHandle();
  if (data !== null) {
    handle.truncate(0);
    handle.write(new TextEncoder().encode(data));
    handle.flush();
  }
  const bytes = new Uint8Array(handle.getSize());
  handle.read(bytes, { at: 0 });
  handle.close();
  postMessage(new TextDecoder().decode(bytes));
};
