//! Prints what SQLite's `integrity_check` says of a file: `ok`, or what is wrong.

use rusqlite::Connection;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("the path of a database is missing")?;
    let connection = Connection::open(path)?;
    let mut statement = connection.prepare("PRAGMA integrity_check")?;
    for line in statement.query_map((), |row| row.get::<_, String>(0))? {
        println!("{}", line?);
    }
    Ok(())
}
