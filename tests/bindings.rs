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
