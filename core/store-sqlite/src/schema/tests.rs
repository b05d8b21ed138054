use super::*;

fn made() -> (Connection, Sealer) {
    let (conn, sealer) = (Connection::open_in_memory().unwrap(), Sealer::new(&[1; 32]));
    migrate(&conn, &sealer).unwrap();
    (conn, sealer)
}

fn kind(fail: Fail) -> StoreErrorKind {
    fail.of_the_group(std::path::Path::new("/nonexistent/db")).kind()
}

#[test]
fn an_empty_file_becomes_a_store_once() {
    let (conn, sealer) = made();
    assert_eq!(look(&conn).unwrap(), Found::Store(newest()));
    migrate(&conn, &sealer).unwrap();
    check_key(&conn, &sealer).unwrap();
    assert_eq!(kind(check_key(&conn, &Sealer::new(&[2; 32])).unwrap_err()), StoreErrorKind::WrongKey);
}

#[test]
fn a_newer_schema_is_left_alone() {
    let (conn, sealer) = made();
    conn.pragma_update(None, "user_version", newest() as i64 + 1).unwrap();
    let before = conn.total_changes();
    assert_eq!(kind(migrate(&conn, &sealer).unwrap_err()), StoreErrorKind::NewerSchema);
    assert_eq!(conn.total_changes(), before);
}

#[test]
fn somebody_elses_database_is_refused() {
    let sealer = Sealer::new(&[1; 32]);
    for theirs in
        ["CREATE TABLE t (x)", "PRAGMA user_version = 7", "PRAGMA application_id = 77; CREATE TABLE meta (name)"]
    {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(theirs).unwrap();
        assert_eq!(kind(migrate(&conn, &sealer).unwrap_err()), StoreErrorKind::Corrupt, "{theirs}");
    }
}

#[test]
fn a_header_without_its_tables_is_damage() {
    for (application, version) in [(APPLICATION_ID, 1), (APPLICATION_ID, 0), (APPLICATION_ID, -1)] {
        let conn = Connection::open_in_memory().unwrap();
        conn.pragma_update(None, "application_id", application).unwrap();
        conn.pragma_update(None, "user_version", version).unwrap();
        assert_eq!(kind(look(&conn).unwrap_err()), StoreErrorKind::Corrupt, "{version}");
    }
}

/// A file of the first version, with what was in it.
#[test]
fn an_older_store_is_brought_up_and_keeps_its_rows() {
    let (conn, sealer) = (Connection::open_in_memory().unwrap(), Sealer::new(&[1; 32]));
    conn.execute_batch(V1).unwrap();
    conn.execute_batch(
        "INSERT INTO calls (uid, worker, began_at, began_time, principal, request_id, tool, scope, name, config)
         VALUES (x'01', x'02', 1, 2, 'p', '3', 't', 's', 'n', x'')",
    )
    .unwrap();
    let check = sealer.seal(KEY_CHECK, Field::KeyCheck, b"").unwrap();
    conn.execute("INSERT INTO meta (name, value) VALUES ('key_check', ?1)", [check]).unwrap();
    conn.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    conn.pragma_update(None, "user_version", 1).unwrap();
    migrate(&conn, &sealer).unwrap();
    assert_eq!(look(&conn).unwrap(), Found::Store(newest()));
    check_key(&conn, &sealer).unwrap();
    let row = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(row("SELECT principal FROM calls WHERE task_ttl IS NULL AND task_end IS NULL"), "p");
}

/// Version 15 says once more of each delivery whether it is over, and which ones are about the same.
#[test]
fn deliveries_of_an_older_store_are_told_apart() {
    let (conn, sealer) = (Connection::open_in_memory().unwrap(), Sealer::new(&[1; 32]));
    STEPS[..14].iter().for_each(|step| conn.execute_batch(step).unwrap());
    conn.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    conn.pragma_update(None, "user_version", 14).unwrap();
    // A call and a subscription of the same bytes are two subjects.
    for (n, queue, kind, subject) in
        [(3, 2, 0, "x'0a'"), (4, 0, 1, "'a'"), (5, 1, 0, "x'0a'"), (6, 4, 0, "x'0b'"), (7, 0, 1, "x'0a'")]
    {
        conn.execute_batch(&format!(
            "INSERT INTO deliveries (n, uid, queue, at, state, due, deadline, created_at, attempts, token, subject_kind,
                 subject, event_id, principal, trigger_name, route_id)
             VALUES ({n}, zeroblob({n}), {queue}, 0, '', 0, 0, 0, 0, 0, {kind}, {subject}, '', '', '', '')"
        ))
        .unwrap();
    }
    migrate(&conn, &sealer).unwrap();
    let mut rows = conn.prepare("SELECT n, over, thread FROM deliveries ORDER BY n").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let rows: Vec<(i64, bool, i64)> = rows.collect::<Result<_, _>>().unwrap();
    assert_eq!(rows, [(3, true, 3), (4, false, 4), (5, false, 3), (6, false, 6), (7, false, 7)]);
}

/// Version 16 counts what every principal waits for.
#[test]
fn unfinished_deliveries_of_an_older_store_are_counted() {
    let (conn, sealer) = (Connection::open_in_memory().unwrap(), Sealer::new(&[1; 32]));
    STEPS[..15].iter().for_each(|step| conn.execute_batch(step).unwrap());
    conn.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    conn.pragma_update(None, "user_version", 15).unwrap();
    for (n, queue, principal) in [(1, 0, "p"), (2, 2, "p"), (3, 1, "p"), (4, 2, "q"), (5, 4, "r")] {
        conn.execute_batch(&format!(
            "INSERT INTO deliveries (n, uid, queue, over, at, state, due, deadline, created_at, attempts, token, subject_kind,
                 subject, event_id, principal, trigger_name, route_id)
             VALUES ({n}, zeroblob({n}), {queue}, {queue} = 2, 0, '', 0, 0, 0, 0, 0, 0, x'', '', '{principal}', '', '')"
        ))
        .unwrap();
    }
    migrate(&conn, &sealer).unwrap();
    let count = |principal: &str| crate::endpoints::pending(&conn, principal, 100).unwrap();
    assert_eq!(["p", "q", "r", "s"].map(count), [2, 0, 1, 0]);
    assert_eq!(crate::endpoints::pending(&conn, "p", 1).unwrap(), 1, "no further than asked");
}

/// While another process makes the store, there is nothing or all of it.
#[test]
fn a_store_that_is_being_made_is_never_half_there() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let path = dir.path().join(round.to_string());
        let connect = || {
            let conn = Connection::open(&path).unwrap();
            conn.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
            conn
        };
        let (made, seen) = (connect(), connect());
        made.pragma_update(None, "journal_mode", "WAL").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || migrate(&made, &Sealer::new(&[1; 32])).unwrap());
            while look(&seen).unwrap() == Found::Empty {}
        });
    }
}

/// What fails on the way leaves the file as it was.
#[test]
fn a_migration_is_whole_or_nothing() {
    let (conn, sealer) = (Connection::open_in_memory().unwrap(), Sealer::new(&[1; 32]));
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    step_up(&conn, &sealer).unwrap();
    conn.execute_batch("ROLLBACK").unwrap();
    assert_eq!(look(&conn).unwrap(), Found::Empty);
}
