import type { TargetedKeyboardEvent } from "preact";
import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { LogWindow, Row } from "../log.js";
import type { Model } from "../model.js";
import { messageOf } from "../errors.js";
import { bytes, clock } from "./format.js";

/** How near to the end a scroll position counts as being there. */
const NEAR = 24;

export function Log({ model, log }: { model: Model; log: LogWindow }) {
  const box = useRef<HTMLDivElement>(null);
  const anchor = useAnchor(box, log);
  return (
    <div class="log">
      <div class="log-head">
        <h3>Log</h3>
        <span class="hint">
          {log.total === 1 ? "1 event" : `${log.total} events`}
          {log.following ? ", following" : ""}
        </span>
        {!log.following && (
          <button type="button" class="plain" onClick={() => void model.followLog()}>
            {log.newer > 0 ? `${log.newer} newer, go to the end` : "Follow the end"}
          </button>
        )}
      </div>
      <div
        class="log-box"
        ref={box}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label="Events of the run"
        aria-description="The arrow keys move between events, Enter opens one."
        onKeyDown={moveBetweenRows}
        onScroll={({ currentTarget }) => {
          anchor.remember();
          const rest = currentTarget.scrollHeight - currentTarget.scrollTop - currentTarget.clientHeight;
          if (rest > NEAR) model.stayInLog();
          else if (log.newer === 0 && !log.following) void model.followLog();
        }}
      >
        {log.hasEarlier && (
          <button type="button" class="plain more" onClick={() => void model.logEarlier()}>
            Show earlier events
          </button>
        )}
        {log.rows.length === 0 && <p class="hint">The first event comes when a worker completes the first step.</p>}
        <ol>
          {log.rows.map((row) => (
            <LogRow key={row.sequence} row={row} log={log} onOpen={() => model.stayInLog()} />
          ))}
        </ol>
        {!log.following && log.newer > 0 && (
          <button type="button" class="plain more" onClick={() => void model.logLater()}>
            Show later events
          </button>
        )}
      </div>
    </div>
  );
}

/** Hundreds of rows must not be hundreds of stops of the Tab key: the log is one, and the arrow keys go through it. */
function moveBetweenRows(event: TargetedKeyboardEvent<HTMLDivElement>) {
  const box = event.currentTarget;
  const here = (event.target as Element).closest("summary");
  if (event.key === "Escape" && here) box.focus();
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  if (!here && event.target !== box) return;
  const rows = [...box.querySelectorAll("summary")];
  const frame = box.getBoundingClientRect();
  const firstInView = rows.findIndex((row) => row.getBoundingClientRect().top >= frame.top);
  const next = here ? rows.indexOf(here) + (event.key === "ArrowDown" ? 1 : -1) : firstInView;
  if (!rows[next]) return;
  event.preventDefault();
  rows[next].focus();
}

/**
 * Keeps what is being read where it is while rows come and go above it, and the end in view while that is followed.
 * (Not every browser anchors scrolling by itself.)
 */
function useAnchor(box: { current: HTMLDivElement | null }, log: LogWindow) {
  const kept = useRef<{ sequence: string; top: number } | null>(null);
  const remember = () => {
    const { current } = box;
    if (!current) return;
    const frame = current.getBoundingClientRect().top;
    for (const row of current.querySelectorAll<HTMLElement>("li[data-sequence]")) {
      const { top, bottom } = row.getBoundingClientRect();
      if (bottom <= frame) continue;
      kept.current = { sequence: row.dataset.sequence!, top: top - frame };
      return;
    }
  };
  const first = log.rows[0]?.sequence;
  const last = log.rows.at(-1)?.sequence;
  useLayoutEffect(() => {
    const { current } = box;
    if (!current) return;
    if (log.following) {
      current.scrollTop = current.scrollHeight;
    } else if (kept.current) {
      const row = current.querySelector(`li[data-sequence="${kept.current.sequence}"]`);
      if (row) {
        const top = row.getBoundingClientRect().top - current.getBoundingClientRect().top;
        current.scrollTop += top - kept.current.top;
      }
    }
    remember();
  }, [first, last, log.following]);
  // Rows wrap anew when the box gets another width.
  useEffect(() => {
    if (!log.following) return;
    const atEnd = new ResizeObserver(() => box.current && (box.current.scrollTop = box.current.scrollHeight));
    if (box.current) atEnd.observe(box.current);
    return () => atEnd.disconnect();
  }, [log.following, first === undefined]);
  return { remember };
}

const LogRow = memo(
  function LogRow({ row, log, onOpen }: { row: Row; log: LogWindow; onOpen: () => void }) {
    const [open, setOpen] = useState(false);
    return (
      <li data-sequence={row.sequence} data-type={row.type}>
        <details
          onToggle={({ currentTarget }) => {
            setOpen(currentTarget.open);
            if (currentTarget.open) onOpen();
          }}
        >
          <summary tabIndex={-1}>
            <span class="sequence">{row.sequence}</span>
            <span class={`kind ${row.kind}`}>{row.kind.replace("_", " ")}</span>
            <span class="gist">
              <bdi>{row.title}</bdi>
            </span>
            <span class="line">{row.line === undefined ? "" : `line ${row.line}`}</span>
          </summary>
          {open && <EventData row={row} log={log} />}
        </details>
      </li>
    );
  },
  (before, after) => before.row === after.row,
);

/** So much of an event is shown at first: a megabyte of text would hold up the page. */
const SHOWN = 20_000;

function EventData({ row, log }: { row: Row; log: LogWindow }) {
  const [text, setText] = useState<string | null>(null);
  const [whole, setWhole] = useState(false);
  useEffect(() => {
    log.data(row.sequence).then(setText, (error: unknown) => setText(messageOf(error)));
  }, [log, row.sequence]);
  if (text === null) return <p class="hint">Reading …</p>;
  const isCut = text.length > SHOWN && !whole;
  return (
    <div class="data">
      <p class="hint">
        <code>{row.type}</code> at {clock(row.at)}
      </p>
      <pre tabIndex={0}>{isCut ? text.slice(0, SHOWN) : text}</pre>
      {isCut && (
        <button type="button" class="plain" onClick={() => setWhole(true)}>
          Show all {bytes(text.length)}
        </button>
      )}
    </div>
  );
}
