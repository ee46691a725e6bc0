//! The TypeScript side of the operations is what the Rust side says.

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/www/client/generated.ts");

#[test]
fn the_typescript_types_are_up_to_date() {
    let fresh = runkeep::bindings::typescript();
    if std::env::var_os("RUNKEEP_WRITE_BINDINGS").is_some() {
        std::fs::write(PATH, fresh).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(PATH).unwrap();
    assert!(kept == fresh, "www/client/generated.ts differs from the Rust types: run `npm run bindings` and commit the file");
}
