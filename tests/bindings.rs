//! The TypeScript side of the operations, and their documentation, are what the Rust side says.

fn check(path: &str, fresh: &str) {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("RUNKEEP_WRITE_BINDINGS").is_some() {
        std::fs::write(path, fresh).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept == fresh, "{path} differs from the list of operations: run `npm run bindings` and commit the file");
}

#[test]
fn the_typescript_types_and_the_reference_are_up_to_date() {
    let fresh = runkeep::bindings::bindings();
    check("www/client/generated.ts", &fresh.typescript);
    check("docs/operations.md", &fresh.reference);
}

/// The members of the type `name`, as they are declared: `costUsd: number | null`.
fn members<'t>(typescript: &'t str, name: &str) -> Option<Vec<&'t str>> {
    let (_, declaration) = typescript.split_once(&format!("export type {name} = "))?;
    // A type's members end where the next declaration begins; comments stand on lines of their own.
    let (declaration, _) = declaration.split_once("\n\n")?;
    let lines = declaration.lines().filter(|line| !line.starts_with("/*") && !line.starts_with(" *"));
    Some(lines.flat_map(|line| line.split(", ")).map(|member| member.trim().trim_start_matches("{ ")).collect())
}

fn camel(snake: &str) -> String {
    let mut words = snake.split('_');
    let first = words.next().unwrap().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// What `src/macros.rs` makes of a member at run time is what TypeScript is told of it: null where it is written as null, absent where it is
/// left out, and neither where it is always there.
#[test]
fn a_member_is_declared_null_or_absent_where_it_comes_so() {
    let typescript = runkeep::bindings::bindings().typescript;
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    let mut wrong = Vec::new();
    let mut checked = std::collections::BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let Ok(source) = std::fs::read_to_string(&path) else { continue };
            let mut declared: Option<(&str, Vec<&str>)> = None;
            for line in source.lines() {
                if let Some(name) = line.trim().strip_prefix("pub struct ").and_then(|rest| rest.strip_suffix(" {")) {
                    // Structs in a macro are indented; others say for themselves how they are written. Events are told by the table of their types.
                    let is_told = line.starts_with(' ') && !matches!(name, "Event" | "EventInput");
                    declared = members(&typescript, name).filter(|_| is_told).map(|members| (name, members));
                }
                let Some((of, members)) = &declared else { continue };
                if line.trim() == "}" {
                    declared = None;
                    continue;
                }
                let field = line.trim().strip_prefix("pub ").and_then(|field| field.strip_suffix(','));
                let Some((field, kind)) = field.and_then(|field| field.split_once(": ")) else { continue };
                let (kind, how) = kind.split_once(" as ").unwrap_or((kind, ""));
                if matches!(how, "skip" | "members") {
                    continue;
                }
                let name = how.strip_prefix('"').map_or_else(|| camel(field), |name| name.trim_end_matches('"').to_owned());
                let comes = match how {
                    "null" | "required" => "null",
                    "list" => "absent",
                    _ if kind.starts_with("Option<") => "absent",
                    _ => "always",
                };
                let member = members.iter().find(|member| {
                    member.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(": ") || rest.starts_with("?: "))
                });
                let is = match member {
                    Some(member) if member[name.len()..].starts_with('?') => "absent",
                    Some(member) if member.contains("| null") => "null",
                    Some(_) => "always",
                    None => "nowhere",
                };
                *checked.entry(comes).or_insert(0) += 1;
                if is != comes {
                    wrong.push(format!("{of}.{name}: comes {comes}, declared {is}: {member:?}"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    // The test has found what it looks for.
    assert!(checked["null"] >= 7 && checked["absent"] >= 200 && checked["always"] >= 200, "{checked:?}");
}

#[test]
fn every_error_code_is_explained() {
    let bindings = runkeep::bindings::bindings();
    let (_, codes) = bindings.typescript.split_once("export type ErrorCode = ").unwrap();
    let codes: Vec<&str> = codes.split(';').next().unwrap().split(" | ").map(|code| code.trim_matches('"')).collect();
    assert!(codes.len() >= 19, "{codes:?}");
    let (prose, _) = bindings.reference.split_once("\n## ").unwrap();
    let missing: Vec<&str> = codes.into_iter().filter(|code| !prose.contains(&format!("`{code}`"))).collect();
    assert_eq!(missing, Vec::<&str>::new(), "docs/operations.md does not say what they mean");
}

#[test]
fn what_is_needed_beside_bytes_is_no_option() {
    let typescript = runkeep::bindings::bindings().typescript;
    assert!(typescript.contains("  chunk(bytes: Bytes, input: ImportChunk, "), "its format cannot be left out");
    assert!(typescript.contains("  put(bytes: Bytes, input?: PutBlob, "));
    assert!(typescript.contains("  jamjet(bytes: Bytes, input?: ImportJamjet, "));
}
