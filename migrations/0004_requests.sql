-- What calls that changed something were answered, until it is known that the answer arrived: a call whose reply was lost is sent again,
-- and then answered instead of applied a second time. A client numbers its calls; its rows lie together, the newest at their end.
CREATE TABLE requests (
    client TEXT    NOT NULL,
    number INTEGER NOT NULL,
    -- Of the operation, its arguments and bytes.
    digest BLOB    NOT NULL,
    answer TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (client, number)
) STRICT, WITHOUT ROWID;
