//! Imports of files from disk, or from whatever can be read: line by line, in bounded memory.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::sessions::{ImportChunk, MOST_REJECTED, RejectedLine, SessionFormat};
use super::{foreign, record::Object};
use crate::error::Result;
use crate::operation::Imports;

/// How many bytes one transaction takes, about.
const CHUNK_BYTES: usize = 256 * 1024;

/// The longest line that is taken: 64 MiB.
const MOST_LINE_BYTES: usize = 64 * 1024 * 1024;

records! {
    /// What became of one file. Importing it again adds nothing.
    #[derive(Default)]
    pub struct FileReport {
        pub path: String,
        pub thread_id: Option<String>,
        /// Records that are new.
        pub imported: i64,
        /// Records that were imported before.
        pub skipped: i64,
        /// Lines of which something was not imported as what it is, and why; at most 1000 of them. Line 0 is the file itself.
        pub rejected: Vec<RejectedLine>,
        pub rejected_count: i64,
        /// Records of types that have no counterpart, by type. They became thread events.
        pub unknown_types: BTreeMap<String, i64>,
    }

    /// How far an import is.
    pub struct ImportProgress {
        pub path: String,
        /// Of this file.
        pub bytes: u64,
        pub total_bytes: u64,
        /// Files that are done, and all that are known.
        pub files: usize,
        pub total_files: usize,
    }
}

impl FileReport {
    fn reject(&mut self, line: i64, reason: String) {
        self.rejected_count += 1;
        if self.rejected.len() < MOST_REJECTED {
            self.rejected.push(RejectedLine { line, reason });
        }
    }
}

impl Imports<'_> {
    /// Imports sessions of Claude Code: files, and directories with all `.jsonl` files in them. `on_progress` answers whether to go on.
    /// A file that cannot be read is told in its report.
    pub fn claude_code(
        &self,
        paths: &[impl AsRef<Path>],
        on_progress: impl FnMut(&ImportProgress) -> bool,
    ) -> Result<Vec<FileReport>> {
        self.files(SessionFormat::ClaudeCode, paths, on_progress)
    }

    /// Imports rollouts of Codex, as [`claude_code`](Self::claude_code) does.
    pub fn codex(&self, paths: &[impl AsRef<Path>], on_progress: impl FnMut(&ImportProgress) -> bool) -> Result<Vec<FileReport>> {
        self.files(SessionFormat::Codex, paths, on_progress)
    }

    /// Imports a zagens store: its directory, or files of it. Threads come first, then turns in the order in which they were made, then
    /// items and events.
    pub fn zagens_json(
        &self,
        paths: &[impl AsRef<Path>],
        on_progress: impl FnMut(&ImportProgress) -> bool,
    ) -> Result<Vec<FileReport>> {
        self.files(SessionFormat::Zagens, paths, on_progress)
    }

    fn files(
        &self,
        format: SessionFormat,
        paths: &[impl AsRef<Path>],
        mut on_progress: impl FnMut(&ImportProgress) -> bool,
    ) -> Result<Vec<FileReport>> {
        let mut found = Vec::new();
        for path in paths {
            walk(path.as_ref(), format, true, &mut found);
        }
        if format == SessionFormat::Zagens {
            found.sort_by_cached_key(|path| zagens_order(path));
        }
        let mut reports = Vec::new();
        for (files, path) in found.iter().enumerate() {
            let shown = path.display().to_string();
            let opened = std::fs::File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
            let (total_bytes, file) = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    let mut report = FileReport { path: shown, ..FileReport::default() };
                    report.reject(0, format!("the file cannot be read: {error}"));
                    reports.push(report);
                    continue;
                }
            };
            let mut goes_on = true;
            let report = self.read(format, &shown, BufReader::new(file), |bytes| {
                let total_files = found.len();
                goes_on = on_progress(&ImportProgress { path: shown.clone(), bytes, total_bytes, files, total_files });
                goes_on
            })?;
            reports.push(report);
            if !goes_on {
                break;
            }
        }
        Ok(reports)
    }

    /// Imports one file from a reader. `on_progress` gets the bytes read so far, and answers whether to go on.
    pub fn read(
        &self,
        format: SessionFormat,
        path: &str,
        mut reader: impl BufRead,
        mut on_progress: impl FnMut(u64) -> bool,
    ) -> Result<FileReport> {
        let mut report = FileReport { path: path.to_owned(), ..FileReport::default() };
        let mut chunk = Chunk { format, line: 1, next: 1, state: None, bytes: Vec::new() };
        let mut read = 0;
        loop {
            let line = match next_line(&mut reader, &mut chunk.bytes) {
                Ok(line) => line,
                Err(error) => {
                    report.reject(chunk.next, format!("the file cannot be read on: {error}"));
                    Line::End
                }
            };
            match line {
                Line::Whole(bytes) => {
                    read += bytes;
                    chunk.next += 1;
                }
                Line::TooLong(bytes) => {
                    read += bytes;
                    report.reject(
                        chunk.next,
                        format!("too_large: the line has {bytes} bytes; at most {MOST_LINE_BYTES} are taken"),
                    );
                    // Keeps its number.
                    chunk.bytes.push(b'\n');
                    chunk.next += 1;
                }
                Line::End => {}
            }
            let is_last = matches!(line, Line::End);
            // A zagens object spreads over lines.
            let is_full =
                chunk.bytes.len() >= CHUNK_BYTES && (format != SessionFormat::Zagens || chunk.bytes.starts_with(b"{\""));
            if is_full || is_last {
                self.send(&mut chunk, is_last, &mut report)?;
                if !on_progress(read) || is_last {
                    return Ok(report);
                }
            }
        }
    }

    fn send(&self, chunk: &mut Chunk, last: bool, report: &mut FileReport) -> Result<()> {
        let answer = self.chunk(ImportChunk {
            format: chunk.format,
            line: Some(chunk.line),
            state: chunk.state.take(),
            last: Some(last),
            bytes: std::mem::take(&mut chunk.bytes),
        })?;
        chunk.state = Some(answer.state);
        chunk.line = chunk.next;
        report.thread_id = answer.thread_id.or(report.thread_id.take());
        report.imported += answer.imported;
        report.skipped += answer.skipped;
        let named = report.rejected.len() as i64;
        report.rejected_count += answer.rejected_count;
        report.rejected.extend(answer.rejected.into_iter().take(MOST_REJECTED - named as usize));
        for (kind, count) in answer.unknown_types {
            *report.unknown_types.entry(kind).or_default() += count;
        }
        Ok(())
    }
}

struct Chunk {
    format: SessionFormat,
    /// The number of its first line, and of the line after its last.
    line: i64,
    next: i64,
    state: Option<crate::json::Json>,
    bytes: Vec<u8>,
}

enum Line {
    Whole(u64),
    TooLong(u64),
    End,
}

/// Appends the next line, newline included; one that is too long is read over.
fn next_line(reader: &mut impl BufRead, bytes: &mut Vec<u8>) -> std::io::Result<Line> {
    let start = bytes.len();
    let taken = reader.by_ref().take(MOST_LINE_BYTES as u64 + 1).read_until(b'\n', bytes)?;
    if taken == 0 {
        return Ok(Line::End);
    }
    if bytes.last() == Some(&b'\n') || taken <= MOST_LINE_BYTES {
        return Ok(Line::Whole(taken as u64));
    }
    bytes.truncate(start);
    let mut length = taken as u64;
    loop {
        let buffer = reader.fill_buf()?;
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let used = newline.map_or(buffer.len(), |at| at + 1);
        length += used as u64;
        let is_over = newline.is_some() || used == 0;
        reader.consume(used);
        if is_over {
            return Ok(Line::TooLong(length));
        }
    }
}

/// The files below a path: those of a directory before those further down, and side chains after the session they belong to.
fn walk(path: &Path, format: SessionFormat, is_named: bool, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        entries.sort_by_cached_key(|path| (path.is_dir(), named(path).starts_with("agent-"), path.clone()));
        for entry in entries {
            // A link may lead back up.
            if !entry.is_symlink() {
                walk(&entry, format, false, found);
            }
        }
        return;
    }
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let is_wanted = extension == "jsonl" || (format == SessionFormat::Zagens && extension == "json");
    if is_named || is_wanted {
        found.push(path.to_owned());
    }
}

fn named(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Threads, turns, items, events; threads and turns in the order in which they were made.
fn zagens_order(path: &Path) -> (u8, i64, PathBuf) {
    let folder = path.parent().map(named).unwrap_or_default();
    let rank = match folder.as_str() {
        "threads" => 0,
        "turns" => 1,
        "items" => 2,
        "events" => 3,
        _ => 4,
    };
    let created = |path: &Path| {
        let text = std::fs::read_to_string(path).ok()?;
        let object: Object<'_> = serde_json::from_str(&text).ok()?;
        foreign::time(&object.text("created_at")?).ok()
    };
    let at = if rank < 2 { created(path).unwrap_or(i64::MAX) } else { 0 };
    (rank, at, path.to_owned())
}
