use tidings_proto::stream::{
    Cursor, CursorPrefix, GapReason, MAX_SEQ, Resume, StreamId, StreamView, check, check_bare,
};

/// Crockford's digits in lower case.
const DIGITS: &str = "0123456789abcdefghjkmnpqrstvwxyz";

/// A cursor as it comes in `Last-Event-ID`: any text.
pub fn cursor(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let read = Cursor::parse(text).ok();
    assert_eq!(read, other_reading(text), "read as another place");
    let Some(cursor) = read else { return };
    assert_eq!(cursor.to_string(), text, "one place has one text");
    assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "safe in a header and in an `id:` field");
    assert_eq!(CursorPrefix::new(cursor.stream, cursor.epoch, cursor.claim).cursor(cursor.next), text);
    resumes(&cursor);
}

/// The format's words: an id of 26 digits, then epoch, claim and place in decimal, with dots between.
fn other_reading(text: &str) -> Option<Cursor> {
    let parts: Vec<&str> = text.split('.').collect();
    let [id, epoch, claim, next] = parts.as_slice() else { return None };
    let digits: Option<Vec<u128>> = id.chars().map(|c| DIGITS.find(c).map(|at| at as u128)).collect();
    let digits = digits.filter(|digits| digits.len() == 26 && digits.first().is_some_and(|first| *first < 8))?;
    let id = digits.iter().fold(0_u128, |bits, digit| bits << 5 | digit);
    let number = |text: &str, most: u64| text.parse::<u64>().ok().filter(|n| n.to_string() == text && *n <= most);
    Some(Cursor {
        stream: StreamId(id.to_be_bytes()),
        epoch: u32::try_from(number(epoch, u32::MAX.into())?).ok()?,
        claim: u32::try_from(number(claim, u32::MAX.into())?).ok()?,
        next: number(next, MAX_SEQ + 1)?,
    })
}

/// What may be answered wherever the stream stands around the cursor: never a silent hole, never a double.
fn resumes(cursor: &Cursor) {
    let around = |n: u64| [n.saturating_sub(1), n, n.saturating_add(1)];
    for epoch in [cursor.epoch, cursor.epoch ^ 1] {
        for claim in [cursor.claim.saturating_sub(1), cursor.claim, cursor.claim.saturating_add(1)] {
            for (earliest, next_seq) in
                around(cursor.next).into_iter().flat_map(|a| around(cursor.next).map(|b| (a, b)))
            {
                if earliest > next_seq {
                    continue;
                }
                for next_claim_first in [None, Some(cursor.next), cursor.next.checked_sub(1)] {
                    for owner_alive in [false, true] {
                        let view = StreamView { epoch, claim, earliest, next_seq, next_claim_first, owner_alive };
                        one_view(cursor, &view);
                    }
                }
            }
        }
    }
}

fn one_view(cursor: &Cursor, view: &StreamView) {
    let on_its_way = cursor.claim == view.claim && view.owner_alive;
    let taken_back = view.next_claim_first.is_some_and(|first| first < cursor.next);
    let same_history = cursor.epoch == view.epoch && cursor.claim <= view.claim && !taken_back;
    let known = same_history && (cursor.next <= view.next_seq || on_its_way);
    match check(cursor, view) {
        Resume::From(seq) => {
            assert_eq!(seq, cursor.next, "{view:?}");
            assert!(known && seq >= view.earliest, "a silent hole: {view:?}");
        }
        Resume::Gap(gap) => {
            let evicted = known && cursor.next < view.earliest;
            assert_eq!(gap.reason, if evicted { GapReason::Evicted } else { GapReason::Regressed }, "{view:?}");
            assert!(evicted || !known, "loss is told where none is: {view:?}");
            assert_eq!((gap.earliest_seq, gap.head_seq), (Some(view.earliest), view.next_seq.checked_sub(1)));
        }
    }
    match check_bare(cursor.seq(), view) {
        Ok(Resume::From(seq)) => assert!(seq >= view.earliest && seq <= view.next_seq),
        Ok(Resume::Gap(gap)) => assert_eq!(gap.reason, GapReason::Evicted),
        Err(head) => {
            assert_eq!(head, view.next_seq.checked_sub(1));
            assert!(cursor.next > view.next_seq, "not ahead of {head:?}");
        }
    }
}
