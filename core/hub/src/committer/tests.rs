use super::*;

fn commit() -> Commit {
    Commit::new(Durability::Process, Vec::new())
}

/// Without a writer thread: what is answered here is answered by nobody but the one who asks.
#[test]
fn a_flush_waits_for_what_was_handed_over_and_for_nothing_else() {
    let committer = Committer::new(1 << 20);
    let answered = |durability| committer.flush(durability).try_recv().is_ok();
    assert!(answered(Durability::Process), "nothing was handed over");
    assert!(!answered(Durability::Disk), "what is committed may not be on disk yet");
    assert!(!answered(Durability::Process), "somebody waits for the thread already");
    drop(committer.next_batch());

    let committer = Committer::new(1 << 20);
    let answered = || committer.flush(Durability::Process).try_recv().is_ok();
    let _reply = committer.submit(commit());
    assert!(!answered(), "it waits for its group");
    let batch = committer.next_batch();
    assert!(!answered(), "it is being committed");
    drop((batch, committer.next_batch()));
}

#[test]
fn a_flush_asks_a_store_that_fails() {
    let committer = Committer::new(1 << 20);
    committer.note(Some(StoreError::new(StoreErrorKind::Full, "full")));
    assert!(committer.flush(Durability::Process).try_recv().is_err());
}

#[test]
fn a_flush_of_a_hub_that_gave_up_is_no_success() {
    let committer = Committer::new(1 << 20);
    let mut waits = committer.submit(commit());
    committer.fail_rest();
    assert!(matches!(waits.try_recv(), Ok(Err(CommitError::Store(error))) if error.kind() == StoreErrorKind::Closed));
    let answer = committer.flush(Durability::Process).try_recv();
    assert!(matches!(answer, Ok(Err(error)) if error.kind() == StoreErrorKind::Closed));
}
